"""Training: loops, minibatches, early stopping, the clock and checkpoints."""
