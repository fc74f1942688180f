"""What every method predicts, and its scores."""
