"""TFLite models: a strict reader of their files, and the networks that their operators make."""
