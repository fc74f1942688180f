"""Data sets: where their files come from, how they are read, and how their rows are split and scaled.

Nothing is imported here, so that listing the data sets stays fast; pandas, scipy and scikit-learn are imported where
a file or a table needs them. TensorFlow never is.
"""
