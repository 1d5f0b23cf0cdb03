"""Record what all-MiniLM-L6-v2 answers in float64: token ids and the mean vector of a few texts, by `transformers`.

Run in an environment of its own, from this folder (`pip install torch==2.13.0 transformers==5.24.0`):

    python record.py FOLDER

FOLDER holds the model, as `bittern pull minilm` prints it.
"""

import json
import sys
from pathlib import Path

import torch
from transformers import AutoModel, AutoTokenizer

TEXTS = (
    "A man is eating food.",
    "Someone eats a meal.",
    "The stock market fell sharply today.",
    "Ünïcödé, 日本語 and 🙂: l'été, naïve Straße!",
    "one",
)


def main(folder: str) -> None:
    """Write oracle.json beside this file."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    torch.set_default_dtype(torch.float64)
    model = AutoModel.from_pretrained(folder, attn_implementation="eager").eval().double()
    rows = []
    for text in TEXTS:
        ids = tokenizer(text)["input_ids"]
        with torch.no_grad():
            hidden = model(torch.tensor([ids])).last_hidden_state[0]
        rows.append({"text": text, "ids": ids, "mean": [float(value) for value in hidden.mean(0)]})
    text = json.dumps(rows, ensure_ascii=False, indent=0)
    Path(__file__).with_name("oracle.json").write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
