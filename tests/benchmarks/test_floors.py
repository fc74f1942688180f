"""Counted products: the paper's protein setting by hand, and relations that hold for all sizes."""

from dataclasses import replace

import pytest

from dgpbench.benchmarks import floors, timing
from dgpbench.config import groups

DEFAULT = timing.Cell("dgpbench", "mf", "protein", "lindinger2020", 128, 3, 5, 512, 5, "float64", 1)
M2, M3 = 128**2, 128**3


def gflop(method: str, **sizes) -> float:
    cell = replace(DEFAULT, method=method, **sizes)
    return floors.flops(cell, timing.resolve(cell)) / 1e9


def test_mean_field_products_are_features_eleven_forms_and_squared_factors():
    solves = 4 * M2 * (512 + 2 * 2560)
    forms = 4 * M2 * (5 * 512 + 6 * 2560)
    assert gflop("mf") * 1e9 == solves + forms + 11 * M3


def test_star_adds_five_stripes_and_ten_arrows():
    cross = 6 * M2 * (10 * 512 + 5 * 2560)  # layer 1 has B columns for any R
    # Blocks of S with all three, two or one products: see docs/methods.md, "Cost", S = C C^T.
    blocks = (11 + 3 * 15) + (3 * 15 + 6 * 5)
    assert gflop("star") * 1e9 == pytest.approx(gflop("mf") * 1e9 - 11 * M3 + cross + blocks * M3)


@pytest.mark.parametrize(("method", "stated"), [("mf", 1.6), ("star", 3.5), ("fc", 9.5)])
def test_the_counts_agree_with_those_stated_for_the_papers_setting(method, stated):
    assert gflop(method) == pytest.approx(stated, rel=0.05)


def test_richer_structures_cost_more():
    assert gflop("mf") < gflop("stripes") < gflop("star") < gflop("fc")
    assert gflop("mf") < gflop("arrow") < gflop("star")


def test_a_single_layer_does_not_see_the_paths():
    assert gflop("mf", L=1, tau=1, R=1) == gflop("mf", L=1, tau=1, R=7)


def test_the_floor_of_dspp_counts_its_sites():
    assert gflop("dspp") == gflop("mf", R=8)


def test_the_floor_of_latent_inputs_has_five_times_the_paths_from_the_first_layer_on():
    assert gflop("mf_lv") == gflop("mf", R=1, B=5 * 5 * 512)


@pytest.mark.parametrize("method", [name for name in groups.names("method") if name not in ("gpr", "sgpr", "fitc")])
def test_every_method_with_gradient_steps_is_counted(method):
    [cell] = timing.parse([f"methods={method}", "L=1" if method in ("sgp", "ppgpr") else "L=3"]).cells
    assert floors.flops(cell, timing.resolve(cell)) > 0
