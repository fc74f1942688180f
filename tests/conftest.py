"""Set-up of all tests: TensorFlow without its log, one thread, float64."""

import gc
import os
import sys
from pathlib import Path

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("MPLBACKEND", "Agg")
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent / "gp")]


@pytest.fixture(autouse=True, scope="module")
def graphs_of_one_file_alone():
    """Free TensorFlow's graphs after each file: a process runs many files, and each collection searches them all."""
    from dgpbench.system import tf_session

    gc.freeze()  # each fit ends with a collection, which need not search what was imported or collected before
    with tf_session.releasing_graphs():
        yield


@pytest.fixture(autouse=True, scope="module")
def plug_ins_of_one_file_alone():
    """Forget the methods that a file of tests has added: other files run in the same process, in any order."""
    from dgpbench.config import groups
    from dgpbench.methods import interface

    kept = [(each, dict(each)) for each in (groups._added, interface.plug_ins)]
    yield
    for registry, before in kept:
        registry.clear()
        registry.update(before)
