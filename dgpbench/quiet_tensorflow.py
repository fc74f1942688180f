"""Start TensorFlow with its threads fixed and its start-up chatter kept from the user."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager


def start(num_threads: int, precision: str) -> None:
    """Import TensorFlow and GPflow; the thread count counts only in the process's first run.

    :param precision: ``float64``, ``float32`` or ``mixed``, of which GPflow's default float for what follows is made
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if "tensorflow" not in sys.modules:
        for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
            os.environ.setdefault(name, str(num_threads))
    with _silent_stderr():
        import gpflow
        import tensorflow as tf

        try:
            tf.config.threading.set_intra_op_parallelism_threads(num_threads)
            tf.config.threading.set_inter_op_parallelism_threads(1)
        except RuntimeError:
            pass  # TensorFlow has started already; the record says how many threads it has
        tf.constant(0.0)  # the devices speak up at their first use
        tf.get_logger().setLevel("ERROR")  # each run of a sweep traces its own functions, which is meant
    gpflow.config.set_default_float(tf.float32 if precision == "float32" else tf.float64)


@contextmanager
def _silent_stderr() -> Iterator[None]:
    """Send file descriptor 2 to a file, which C++ code writes to; replay it where the import fails."""
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as sink:
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
