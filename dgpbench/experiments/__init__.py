"""Which runs a published item needs, and carrying them out."""
