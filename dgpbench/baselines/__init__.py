"""What a reader asks to see beside deep GPs: plug-ins as anybody writes them, entry points of ``dgpbench.methods``.

Hyperparameters are those of the paper, or the library's defaults; none was tuned on a split that a table shows. Only
the deep ensemble's learning rate was chosen, on splits 10 to 13 of boston.
"""
