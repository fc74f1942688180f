"""Figures: one module for each kind, with its panels, numbers and drawing; ``item_figures`` lists the kinds."""
