"""The lists of known faults: each still has its place in the package, so that `make test-mutants` can put it there."""

import ast
from collections import Counter

import pytest
from mutants.run import ROOT, read_all

LISTS = read_all()


@pytest.mark.parametrize("name", LISTS)
def test_faults_have_one_place_compile_and_their_tests_exist(name):
    for mutant in LISTS[name]:
        path, text = mutant.faulty()
        original = (ROOT / path).read_text(encoding="utf-8")
        assert mutant.node_ids(), mutant.name
        assert text != original, f"{mutant.name} changes nothing"
        if path.suffix == ".py":
            ast.parse(text, mutant.name)


def test_a_fault_has_a_name_of_its_own():
    counts = Counter(mutant.name for mutants in LISTS.values() for mutant in mutants)
    assert [name for name, count in counts.items() if count > 1] == []
