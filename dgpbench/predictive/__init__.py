"""Predictions of all methods, and their scores."""
