"""Milliseconds per gradient step, beside a counted floor and beside other packages."""
