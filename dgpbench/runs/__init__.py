"""One run: its identity, its flow, its record."""
