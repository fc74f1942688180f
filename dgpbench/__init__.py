"""dgpbench: reproducible benchmarks of deep Gaussian processes for regression."""

__version__ = "0.1.0"
