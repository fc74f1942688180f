"""Signals, limits, TensorFlow's start and end, provenance."""
