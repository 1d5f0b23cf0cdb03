"""Tokenizers of folders: the ids of the `tokenizers` library, texts that come back, marks and templates."""

import json
import shutil
from pathlib import Path
from typing import Any

import family_files as f
import pytest
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors, trainers
from tokenizers import Tokenizer as Backend

import bittern
from bittern.front.tokenizer_json import folder_tokenizer

TEXTS = ["Hello, world!", " two  blanks ", "naïve 東京 🚀", "a<|im_end|>b", "", "1234 + 5"]
CORPUS = ["Hello, world! naïve", "two blanks and more words", "1234567890 + - hello world"] * 3


def _save(folder: Path, backend: Backend, **settings: Any) -> None:
    backend.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def _byte_level(folder: Path) -> Backend:
    backend = Backend(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    backend.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet))
    backend.add_special_tokens([AddedToken("<s>", special=True), AddedToken("<|im_end|>", special=True)])
    mark = backend.token_to_id("<s>")
    backend.post_processor = processors.TemplateProcessing("<s> $A", special_tokens=[("<s>", mark)])
    _save(folder, backend, eos_token="<|im_end|>", chat_template="{{ messages[0].content }}!")
    return backend


def _word_piece(folder: Path) -> Backend:
    backend = Backend(models.WordPiece(unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece()
    marks = ["[UNK]", "[CLS]", "[SEP]"]
    backend.train_from_iterator(CORPUS, trainers.WordPieceTrainer(vocab_size=60, special_tokens=marks))
    rows = [(text, backend.token_to_id(text)) for text in marks[1:]]
    backend.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", special_tokens=rows)
    _save(folder, backend, cls_token="[CLS]", sep_token="[SEP]")
    return backend


def test_byte_level_ids_and_texts(tmp_path: Path) -> None:
    backend = _byte_level(tmp_path)
    made = folder_tokenizer(tmp_path)
    assert made is not None
    for text in TEXTS:
        assert made.encode(text) == backend.encode(text, add_special_tokens=True).ids
        assert made.encode(text, bos=False) == backend.encode(text, add_special_tokens=False).ids
        assert made.decode(made.encode(text, bos=False)) == text
    assert made.text(made.bos or 0) == "<s>" and made.adds_bos
    assert {made.text(number) for number in made.stop_ids} == {"<|im_end|>"}


def test_control_tokens_in_a_strangers_text(tmp_path: Path) -> None:
    _byte_level(tmp_path)
    made = folder_tokenizer(tmp_path)
    assert made is not None
    end = next(iter(made.stop_ids))
    assert end in made.encode("a<|im_end|>b")
    assert end not in made.encode("a<|im_end|>b", special=False)
    assert made.decode(made.encode("a<|im_end|>b", bos=False, special=False)) == "a<|im_end|>b"


def test_streaming_of_unfinished_characters(tmp_path: Path) -> None:
    _byte_level(tmp_path)
    made = folder_tokenizer(tmp_path)
    assert made is not None
    stream = made.stream()
    pieces = [stream.push(number) for number in made.encode("東京 🚀", bos=False)] + [stream.flush()]
    assert "".join(pieces) == "東京 🚀" and "" in pieces


def test_word_pieces(tmp_path: Path) -> None:
    backend = _word_piece(tmp_path)
    made = folder_tokenizer(tmp_path)
    assert made is not None
    ids = made.encode("Hello world")
    assert ids == backend.encode("Hello world").ids
    assert (made.text(ids[0]), made.text(ids[-1])) == ("[CLS]", "[SEP]")
    assert made.decode(ids[1:-1]).strip() == "hello world"


def test_a_folder_with_everything(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(f.GOLDEN / "llama", tmp_path / "all"))
    _byte_level(folder)
    with bittern.load(folder) as model:
        assert model.chat_text("Hi") == "Hi!"
        assert model.encode("a") and model.vocab_size == 64
    (folder / "chat_template.jinja").write_text("<{{ messages[0].content }}>")
    with bittern.load(folder) as model:
        assert model.chat_text("Hi") == "<Hi>"


def test_no_tokenizer(tmp_path: Path) -> None:
    assert folder_tokenizer(tmp_path) is None
    with pytest.raises(bittern.BitternError) as caught, bittern.load(f.GOLDEN / "llama") as model:
        model.encode("a")
    assert caught.value.code == "R107"
