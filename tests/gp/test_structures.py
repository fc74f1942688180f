import fit_once
import numpy as np
import pytest
import small

from dgpbench.errors import UserError
from dgpbench.gp import structures
from dgpbench.gp.block_gaussian import Blocks

WIDTHS = (3, 3, 1)


def count(structure) -> int:
    return int(structure.factor_pattern.sum())


def test_mean_field_has_the_diagonal_blocks_alone():
    assert count(structures.mean_field(WIDTHS)) == sum(WIDTHS)


def test_star_has_the_blocks_of_stripes_and_of_arrow():
    star = structures.star(WIDTHS).factor_pattern
    assert np.array_equal(star, structures.stripes(WIDTHS).factor_pattern | structures.arrow(WIDTHS).factor_pattern)


def test_fully_coupled_has_every_lower_block():
    assert np.array_equal(structures.fully_coupled(WIDTHS).factor_pattern, np.tril(np.ones((7, 7), bool)))


def test_block_counts_of_the_papers_architecture():
    widths = (5, 5, 1)
    assert [count(structures.STRUCTURES[name](widths)) for name in ("mean_field", "star", "fully_coupled")] == [
        11,
        26,
        66,
    ]


@pytest.mark.parametrize("name", ["mean_field", "stripes", "arrow", "star"])
def test_recursive_structures_have_covariances_of_the_factors_pattern(name):
    structure = structures.STRUCTURES[name]((3, 3, 3, 1))
    pattern = structure.factor_pattern
    assert structure.is_recursive
    assert np.array_equal(np.tril(structure.covariance_pattern), pattern)


def test_chain_fills_in_within_a_layer():
    chain = structures.chain((2, 2, 1))
    assert not chain.is_recursive
    assert chain.covariance_pattern[2, 3]


def test_custom_blocks_can_write_star():
    blocks = [
        {"layers": [2, 1], "gps": "same"},
        {"layers": [3, 1], "gps": "all"},
        {"layers": [3, 2], "gps": [[1, 1], [1, 2], [1, 3]]},
    ]
    custom = structures.custom(WIDTHS, blocks)
    assert np.array_equal(custom.factor_pattern, structures.star(WIDTHS).factor_pattern)
    assert custom.is_recursive


def test_a_custom_structure_without_couplings_trains_as_mean_field():
    X = np.random.default_rng(0).normal(size=(12, 2))
    short = ("budget=smoke", "method.num_layers=2", "method.num_inducing=4", "training.max_iterations=2")
    none = ("method=custom", "method.blocks=[{layers: [2, 1], gps: []}]")
    found, expected = (fit_once.fit(X, X[:, 0], *method, *short).trace for method in (none, ("method=mf",)))
    assert [row.elbo for row in found] == [row.elbo for row in expected]


@pytest.mark.parametrize(
    "entry",
    [
        {"layers": [1, 2], "gps": "all"},
        {"layers": [4, 1], "gps": "all"},
        {"layers": [2, 1], "gps": [[4, 1]]},
        {"layers": [2, 2], "gps": [[1, 2]]},
        {"layers": [2, 1], "gps": "some"},
        {"layers": "top"},
        {},
    ],
)
def test_a_custom_block_that_does_not_exist_is_refused(entry):
    with pytest.raises(UserError, match=r"method\.blocks"):
        structures.custom(WIDTHS, [entry])


def test_dense_covariance_is_zero_outside_the_covariance_pattern():
    structure = structures.chain((2, 2, 1))
    q = small.posterior(structure)
    blocks = q.blocks([])
    assert isinstance(blocks, Blocks)
    S = blocks.dense()[1].numpy().reshape(5, small.M, 5, small.M)
    size = np.abs(S).max(axis=(1, 3))
    assert np.array_equal(size > 0, structure.covariance_pattern)
