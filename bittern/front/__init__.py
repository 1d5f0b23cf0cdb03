"""Readers of what people bring: checkpoints, tokenizers, chat templates. A file is believed after it was checked."""
