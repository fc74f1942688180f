"""TensorFlow's start, with its threads fixed and its messages kept from the user, and the end of a run's graphs."""

import ctypes
import gc
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from dgpbench.errors import UserError

CUSTOM = "CustomGradient-"
KEEP_FREED_MEMORY = {-1: 1 << 30, -3: 1 << 30, -8: 1}  # malloc.h: M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX


def limit_threads(num_threads: int) -> None:
    """Limit the threads of the libraries that read the environment when they are loaded."""
    if "tensorflow" not in sys.modules:
        for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
            os.environ.setdefault(name, str(num_threads))


def start(num_threads: int, precision: str, device: str = "cpu", *, bare: bool = False) -> None:
    """Import TensorFlow and GPflow; threads and device of the process's first run are those of all.

    The process keeps the memory that it frees, for the next step.

    :param precision: ``float64``, ``float32`` or ``mixed``, which determines GPflow's default float
    :param device: ``cpu``, ``gpu`` (the first one), or ``auto``, which is the GPU if there is one
    :param bare: import neither Keras 3 nor GPflow's shape checks, which take a third of the time, and exempt what was
        imported from garbage collection; for processes that run no other code, since ``tf.keras`` is then Keras 2
    :raises UserError: for ``gpu`` where TensorFlow has none
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    limit_threads(num_threads)
    _keep_freed_memory()
    if bare := bare and "tensorflow" not in sys.modules:
        os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
    collecting = gc.isenabled()
    gc.disable()  # it would search the many objects of an import several times
    try:
        with _silent_stderr():
            if bare:
                from check_shapes import set_enable_check_shapes

                set_enable_check_shapes(False)
            import gpflow
            import tensorflow as tf

            with suppress(RuntimeError):  # TensorFlow has started already, and keeps its threads and devices
                tf.config.threading.set_intra_op_parallelism_threads(num_threads)
                tf.config.threading.set_inter_op_parallelism_threads(1)
                gpus = [] if device == "cpu" else tf.config.list_physical_devices("GPU")[:1]
                for each in gpus:
                    tf.config.experimental.set_memory_growth(each, True)  # other processes may use the same GPU
                tf.config.set_visible_devices(gpus, "GPU")
            tf.config.experimental.enable_tensor_float_32_execution(False)  # products of 10 bits on a GPU
            tf.constant(0.0)  # the devices print messages at their first use
            tf.get_logger().setLevel("ERROR")  # each run of a sweep traces its own functions, which is meant
    finally:
        if collecting:
            gc.enable()
    gpflow.config.set_default_float(tf.float32 if precision == "float32" else tf.float64)
    if bare:
        gc.freeze()
    if device == "gpu" and gpu() is None:
        raise UserError(
            "device=gpu cannot be used: TensorFlow has no GPU in this process; `dgpbench doctor` lists the devices, "
            "and pip install 'dgpbench[gpu]' installs what TensorFlow needs for one"
        )


def _keep_freed_memory() -> None:
    """Keep glibc from returning freed memory to the kernel.

    A step frees its large arrays and the next one needs them again: the kernel would clear each of their pages anew, up
    to a quarter of a step's time. Other C libraries have no such switch, or ignore it.
    """
    with suppress(OSError, AttributeError, TypeError):
        libc = ctypes.CDLL(None)
        for parameter, value in KEEP_FREED_MEMORY.items():
            libc.mallopt(parameter, value)


def gpu() -> str | None:
    """Return the name of the GPU that this process computes on, such as 'NVIDIA H100 80GB HBM3', or None."""
    if "tensorflow" not in sys.modules:
        return None
    import tensorflow as tf

    return next(map(gpu_name, tf.config.get_visible_devices("GPU")), None)


def gpu_name(device: Any) -> str:
    """Return the name of one of ``tf.config.list_physical_devices``."""
    import tensorflow as tf

    return tf.config.experimental.get_device_details(device).get("device_name", device.name)


@contextmanager
def _silent_stderr() -> Iterator[None]:
    """Send file descriptor 2 to memory, which C++ code writes to; replay it where the import fails."""
    sys.stderr.flush()
    kept = os.dup(2)
    in_memory = hasattr(os, "memfd_create")  # Linux; a full folder for temporary files stops no run
    with open(os.memfd_create("stderr"), "w+b") if in_memory else tempfile.TemporaryFile() as sink:
        os.dup2(sink.fileno(), 2)
        try:
            yield
        except BaseException:
            os.dup2(kept, 2)
            sink.seek(0)
            sys.stderr.write(sink.read().decode(errors="replace"))
            raise
        finally:
            os.dup2(kept, 2)
            os.close(kept)


@contextmanager
def releasing_graphs(*, collect: bool = True) -> Iterator[None]:
    """Free the block's graphs when it ends, so that a long sweep in one process needs no more memory than a short one.

    Two tables of the libraries keep every graph for ever, some 17 MB a run: TensorFlow registers each custom gradient
    under a new name, and TensorFlow Probability's cache of bijectors holds tensors that hold each other. What was in
    them before the block stays: a model that is still in use may need it.

    :param collect: search for garbage at once, which takes up to a second; else the collector finds it in its own time
    """
    gradients, cached = set(_gradients()), {id(key) for key in _bijectors()}
    try:
        yield
    finally:
        names = [name for name in _gradients() if name.startswith(CUSTOM) and name not in gradients]
        keys = [key for key in _bijectors() if id(key) not in cached]
        for name in names:
            del _gradients()[name]
        for key in keys:
            key.cancel()  # else the death of its tensor would look for it in the table
            del _bijectors()[key]
        if collect and _gradients():
            gc.collect()  # graphs are cycles, and the collector alone comes by too seldom for their size


def without_triton() -> None:
    """Make ``import triton`` fail from here on, unless it is imported already: PyTorch then does without it.

    TensorFlow 2.20 and later export their LLVM's symbols to all libraries; Triton's LLVM, which PyTorch loads with its
    first optimiser, then ends the process with a segmentation fault (tensorflow/tensorflow#124205). Triton compiles
    kernels for GPUs, which are not used here.
    """
    sys.modules.setdefault("triton", None)  # type: ignore[arg-type]  # the import system's mark of a missing module


def _gradients() -> dict:
    """TensorFlow's gradients by name; empty where TensorFlow was not needed, as for a run that is done already."""
    if "tensorflow" not in sys.modules:
        return {}
    from tensorflow.python.framework import ops

    return ops.gradient_registry._registry


def _bijectors() -> dict:
    """TensorFlow Probability's cache, shared by all bijectors."""
    if "tensorflow_probability" not in sys.modules:
        return {}
    from tensorflow_probability.python.bijectors import bijector

    return bijector.Bijector._cache.storage
