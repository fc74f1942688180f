"""Memory that a step frees serves the next one; the free memory of a container."""

import subprocess
import sys

import pytest

from dgpbench.system import provenance

PAGES_OF_A_LATE_ARRAY = """
import resource
from dgpbench.system import tf_session

tf_session.start(1, "float64")
import tensorflow as tf

for _ in range(40):  # the heap grows until the pieces fit
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    tf.fill([2**23], tf.constant(1.0, tf.float64))
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other C libraries decide by themselves")
def test_an_array_takes_the_pages_of_the_one_that_was_freed():
    child = subprocess.run([sys.executable, "-c", PAGES_OF_A_LATE_ARRAY], capture_output=True, text=True, check=True)
    assert int(child.stdout) < 100  # of the 16,384 pages of 64 MB


@pytest.mark.parametrize(("limit", "free"), [("9000", 5000), ("max", None)])
def test_caches_of_files_in_a_container_count_as_free(tmp_path, monkeypatch, limit, free):
    for name, text in (("max", limit), ("current", "7000"), ("stat", "anon 4000\ninactive_file 3000\n")):
        (tmp_path / f"memory.{name}").write_text(text)
    monkeypatch.setattr(provenance, "CGROUP", tmp_path)
    found = provenance.available()
    assert found == free if free else found > 9000
