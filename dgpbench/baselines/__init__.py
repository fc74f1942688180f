"""What a reader asks to see beside deep GPs: plug-ins as anybody writes them, entry points of ``dgpbench.methods``.

Hyperparameters are those of the paper, or the library's defaults; none was tuned on a test row.
"""
