"""Figures: one file for each family of functions ``(frame, ax) -> ax``; ``layouts`` says which panels make a figure."""
