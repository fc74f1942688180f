"""Baselines beside deep GPs: plug-ins like a user's, found by the entry points ``dgpbench.methods``.

Hyperparameters are those of the paper, or the library's defaults. No table shows a split that one was tuned on: only
the deep ensemble's learning rate was chosen, on splits 10 to 13 of boston.
"""
