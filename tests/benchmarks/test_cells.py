"""The command line of ``bench`` becomes cells; wrong input becomes one sentence."""

import pytest

from dgpbench.benchmarks import timing
from dgpbench.errors import UserError


def test_the_default_is_the_setting_of_the_papers_protein_runs():
    plan = timing.parse(["methods=mf"])
    assert plan.cells == [timing.Cell("dgpbench", "mf", "protein", "lindinger2020", 128, 3, 5, 512, 5, "float64", 1)]


def test_one_size_is_varied_at_a_time():
    plan = timing.parse(["methods=star", "M=64,32", "L=3,2"])
    assert [(cell.M, cell.L) for cell in plan.cells] == [(64, 3), (32, 3), (64, 2)]


def test_a_product_takes_every_combination():
    plan = timing.parse(["methods=star", "M=64,32", "L=3,2", "sweep=product"])
    assert [(cell.M, cell.L) for cell in plan.cells] == [(64, 3), (64, 2), (32, 3), (32, 2)]


def test_a_method_can_have_a_size_of_its_own():
    plan = timing.parse(["methods=mf,sghmc:B=2560"])
    assert [(cell.method, cell.B, cell.R) for cell in plan.cells] == [("mf", 512, 5), ("sghmc", 2560, 1)]


def test_a_cells_overrides_are_what_a_run_takes():
    [cell] = timing.parse(["methods=fc", "M=32", "B=64"]).cells
    run = timing.resolve(cell)
    assert (run.method.num_inducing, run.training.batch_size) == (32, 64)
    assert not run.training.early_stopping


def test_natural_gradients_are_timed_by_their_optimiser():
    [cell] = timing.parse(["methods=fc", "optimiser=natgrad_adam"]).cells
    assert timing.resolve(cell).training.optimiser == "natgrad_adam"
    assert "optimiser=natgrad_adam" in str(cell)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["method=mf"], "did you mean methods"),
        (["methods=stra"], "did you mean star"),
        (["M=0"], "whole numbers of at least 1"),
        (["precision=double"], "float64"),
        (["threads=1,2"], "one value"),
        (["methods=gpr", "L=1"], "no gradient step"),
        (["methods=sgp"], "one layer"),
        (["methods=star", "optimiser=natgrad_adam"], "cannot train star"),
        (["methods=sghmc:X=3"], "another size"),
    ],
)
def test_wrong_bench_input_is_refused(texts, message):
    with pytest.raises(UserError, match=message):
        timing.parse(texts)


def test_groups_bound_the_processes_that_are_alive():
    plan = timing.parse(["methods=mf", "M=64,32,16", "together=2"])
    assert [len(group) for group in plan.interleaved()] == [2, 1]
