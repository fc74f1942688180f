"""PyTorch in a process that has TensorFlow."""

import sys


def without_triton() -> None:
    """Let ``import triton`` fail from here on, unless it is imported already: PyTorch then does without it.

    TensorFlow 2.20 and later put their LLVM among the symbols that all libraries see; Triton's, which PyTorch loads
    with its first optimiser, then ends the process with a segmentation fault (tensorflow/tensorflow#124205). Triton
    compiles kernels for GPUs, and nothing here calls it.
    """
    sys.modules.setdefault("triton", None)  # type: ignore[arg-type]  # what the import system knows as "not to be had"
