"""Training: loops, minibatches, early stopping, the log and checkpoints."""
