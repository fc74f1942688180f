"""Deep Gaussian processes: prior, posteriors, propagation and objectives (TensorFlow and GPflow)."""
