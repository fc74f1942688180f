"""Signals, files, progress, the start of TensorFlow, provenance."""
