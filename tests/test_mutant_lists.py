"""The lists of known faults: each still has its place in the package, so that `make test-mutants` can put it there."""

from collections import Counter
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
FAULTS = [
    fault for path in sorted((ROOT / "tests/mutants").glob("*.yaml")) for fault in yaml.safe_load(path.read_text())
]


@pytest.mark.parametrize("fault", FAULTS, ids=[fault["name"] for fault in FAULTS])
def test_a_fault_has_one_place_compiles_and_its_tests_exist(fault):
    text = (ROOT / fault["file"]).read_text()
    assert text.count(fault["piece"]) == 1, "the piece is not there exactly once"
    assert fault["piece"] != fault["replacement"]
    if fault["file"].endswith(".py"):
        compile(text.replace(fault["piece"], fault["replacement"]), fault["file"], "exec")
    for test in fault["tests"]:
        path, _, name = test.partition("::")
        assert f"def {name.partition('[')[0]}(" in (ROOT / path).read_text() if name else (ROOT / path).exists()


def test_a_fault_has_a_name_of_its_own():
    assert [name for name, count in Counter(fault["name"] for fault in FAULTS).items() if count > 1] == []
