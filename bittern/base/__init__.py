"""What every layer stands on: errors with codes, canonical hashing, progress."""
