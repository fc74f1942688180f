"""Data sets: where their files come from, how they are read, split and standardised.

pandas, SciPy and scikit-learn are imported where a file or a table needs them, so that listing data sets stays fast.
"""
