"""Signals, files, memory, progress, the start of TensorFlow, provenance."""
