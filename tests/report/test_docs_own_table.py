"""Generated parts on our own table and on bounds."""

import re
import shutil
from pathlib import Path

import fit_once
import pytest
from doc_pages import COST, docs, part, rows, write_pages
from toys import spread_over, toy_points, toy_trace, write_toy

from dgpbench.report.figures import style
from dgpbench.runs.rerun import Rescored
from scripts.docs import own_table, pages

# Our own table --------------------------------------------------------------------------------------------------------


OWN = {
    ("sgp", 1): {"boston": (-2.6, 1.5), "yacht": (-1.0, 0.5)},
    ("star", 3): {"boston": (-2.4, 1.6), "yacht": (-0.5, 0.4)},
    ("gradient_boosting_quantiles", 1): {"boston": (None, 1.2), "yacht": (None, 0.7)},
    ("ngboost", 1): {"boston": (-2.3, 1.1), "yacht": (-0.4, 0.3)},
}


@pytest.fixture(scope="module")
def own(tmp_path_factory) -> Path:
    """Methods on two data sets: one has quantiles only, and one has four of the ten splits of boston."""
    return own_pages(tmp_path_factory.mktemp("own"), OWN)


def own_pages(folder: Path, scores: dict) -> Path:
    """The pages of methods with these mean scores: (method, layers) -> data set -> (tll, crps)."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda handle: None)
        for (method, num_layers), found in scores.items():
            for dataset, (tll, crps) in found.items():
                for split, noise in enumerate(
                    spread_over(0.0, 0.02, 10)[: 4 if (method, dataset) == ("ngboost", "boston") else 10]
                ):
                    given = {"crps": crps + noise, "rmse": 3.0} | ({} if tll is None else {"tll": tll + noise})
                    who = {"dataset": dataset, "method": method, "num_layers": num_layers, "budget": "laptop"}
                    write_toy(folder / "results", given, split=split, points=toy_points(0.0, seed=split), **who, **COST)
        # The toys' scores are not those of their points.
        patch.setattr("dgpbench.report.export.rescore", lambda directory, record: Rescored())
        assert fit_once.command("results", "export", f"results_dir={folder}/results") == 0
    shutil.rmtree(folder / "results" / "runs")
    write_pages(folder)
    assert docs(str(folder)) == 0
    return folder


@pytest.mark.full
def test_our_own_table_has_a_row_for_each_method_with_its_mean_rank(own):
    tll, crps = part(own, "dgpbench_uci").split("):\n\n|")[1:]
    assert rows(f"|{tll}") == {
        "gradient_boosting_quantiles": {"boston": "none", "yacht": "none", "mean rank": ""},
        "ngboost": {"boston": "4/10", "yacht": "-0.40 ± 0.02", "mean rank": ""},
        "sgp L1": {"boston": "-2.60 ± 0.02", "yacht": "-1.00 ± 0.02", "mean rank": "2.0"},
        "star L3": {"boston": "-2.40 ± 0.02", "yacht": "-0.50 ± 0.02", "mean rank": "1.0"},
    }
    ranks = {name: row["mean rank"] for name, row in rows(f"|{crps}").items()}
    assert ranks == {"gradient_boosting_quantiles": "2.0", "ngboost": "", "sgp L1": "2.0", "star L3": "2.0"}
    assert f"|{crps}".count("Mean ranks are over boston and yacht; methods with an incomplete cell have no rank.") == 1
    assert "74 runs, 1.9 core-hours" in part(own, "dgpbench_uci")
    assert "Not run: bayesian_ridge, " in part(own, "dgpbench_uci")


@pytest.mark.full
def test_a_summary_names_the_data_sets_of_each_metrics_ranks(tmp_path):
    scores = {
        method: {"boston": (-2.6, 1.9), "energy": (tll, 1.0), "concrete": (-3.0, 3.0), "yacht": (-1.0, 0.7)}
        for method, tll in {("sgp", 1): None, ("star", 2): -0.5}.items()
    }
    text = part(own_pages(tmp_path, scores), "dgpbench_uci_summary")
    assert (
        "Interpolation on boston, concrete and yacht (tll); boston, energy, concrete and yacht (crps); one thread."
        in text
    )


@pytest.mark.full
def test_a_picture_in_other_colours_is_drawn_again(own, monkeypatch, capsys):
    monkeypatch.setitem(style.COLOURS, "star", "#123456")
    capsys.readouterr()
    assert docs("--check", str(own)) == 1
    assert "docs/images/dgpbench_uci_cost.png" in "".join(capsys.readouterr())


@pytest.mark.full
def test_ranks_of_our_own_table_are_of_the_largest_block_that_is_complete(tmp_path):
    """ngboost has yacht, energy and concrete alone, and is the best on two of them."""
    more = {
        ("sgp", 1): {"energy": (-0.9, 0.5), "concrete": (-3.1, 2.0)},
        ("star", 3): {"energy": (-0.5, 0.4), "concrete": (-3.2, 2.1)},
        ("ngboost", 1): {"energy": (-0.4, 0.3), "concrete": (-3.3, 2.2)},
    }
    folder = own_pages(tmp_path, {key: OWN[key] | found for key, found in more.items()})
    tll = part(folder, "dgpbench_uci").split("):\n\n|")[1]
    ranks = {name: row["mean rank"] for name, row in rows(f"|{tll}").items()}
    assert ranks == {"ngboost": "1.7", "sgp L1": "2.3", "star L3": "2.0"}
    assert "Mean ranks are over energy, concrete and yacht; methods" in tll


@pytest.mark.full
def test_a_cell_with_failed_runs_only_is_marked(tmp_path):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda handle: None)
        for split in range(10):
            who = {"dataset": "boston", "budget": "laptop", "split": split}
            write_toy(tmp_path / "results", status="diverged", method="gpr", num_layers=1, **who)
            write_toy(tmp_path / "results", {"tll": -2.5, "crps": 1.0}, method="sgp", num_layers=1, **who, **COST)
            write_toy(tmp_path / "results", {"tll": -2.4, "crps": 1.0}, method="mf", num_layers=2, **who, **COST)
    assert fit_once.command("results", "export", f"results_dir={tmp_path}/results") == 0
    shutil.rmtree(tmp_path / "results" / "runs")
    write_pages(tmp_path)
    assert docs(str(tmp_path)) == 0
    text = part(tmp_path, "dgpbench_uci")
    assert rows(f"|{text.split('):' + chr(10) * 2 + '|')[1]}")["gpr L1"]["boston"] == "0/10"
    assert "gpr L1" not in re.split(r": |, |\.", text[text.index("Not run: ") :].splitlines()[0])
    assert "Mean ranks" not in text  # of one data set


@pytest.mark.full
def test_newer_methods_are_compared_split_by_split(tmp_path):
    """The splits differ by 0.02, the methods by the same number on each."""
    scores = {
        ("mf", 2): {"boston": (-2.4, 1.5)},
        ("mf_lv", 2): {"boston": (-2.2, 1.5)},
        ("star", 2): {"yacht": (0.1, 1.0)},
    }
    folder = own_pages(tmp_path, scores)
    assert rows(part(folder, "dgpbench_frontier_pairs")) == {
        "mf_lv - mf": {"boston": "+0.20 ± 0.00 [10]", "yacht": ""},
        "star - mf": {"boston": "", "yacht": ""},
    }
    assert part(folder, "dgpbench_frontier_extrapolation_pairs") == own_table.NOTHING  # all are of interpolation


@pytest.mark.full
def test_a_page_does_not_depend_on_the_plug_ins_that_are_loaded(own, monkeypatch):
    """Such as the tests of plug-ins leave behind."""
    from dgpbench.config import groups
    from dgpbench.methods.plugins import load_entry_point

    (method,) = load_entry_point("bayesian_ridge")
    monkeypatch.setitem(groups._added, ("method", "a_guest"), groups.describe("method", method) | {"name": "a_guest"})
    assert "a_guest" not in part(own, "dgpbench_uci")
    assert docs("--check", str(own)) == 0


@pytest.mark.full
def test_our_own_table_is_drawn_and_kept(own):
    shown = part(own, "dgpbench_uci_pictures")
    for name in ("dgpbench_uci_cost.png", "dgpbench_uci_calibration.png"):
        assert f"](images/{name})" in shown
        assert (own / "docs" / "images" / name).stat().st_size > 10_000
    assert docs("--check", str(own)) == 0
    assert sorted(path.name for path in (own / "results" / "records").iterdir()) == [
        "dgpbench_frontier-laptop.jsonl",
        "dgpbench_structures-laptop.jsonl",
        "dgpbench_uci-laptop.jsonl",
        "lindinger2020_table1-laptop.jsonl",
    ]


# Bounds ---------------------------------------------------------------------------------------------------------------


@pytest.mark.full
def test_bounds_are_compared_on_splits_that_both_methods_have(tmp_path):
    bounds = {"mf": (-200.0, -190.0, -195.0), "star": (-180.0, -195.0, -171.0, 1000.0)}
    changed = {
        "method.hidden_scale": 0.1,
        "training.batch_size": 2560,
        "training.num_samples": None,
        "training.average_last": 0.0,
    }
    settings = {"budget": "laptop", "overrides": changed, **COST}
    for method, values in bounds.items():
        for split, value in enumerate(values):
            trace = toy_trace().assign(elbo=value)
            write_toy(tmp_path / "results", method=method, split=split, trace=trace, **settings)
    write_toy(tmp_path / "results", method="mf", dataset="energy", trace=toy_trace(), **settings)
    assert fit_once.command("results", "export", f"results_dir={tmp_path}/results") == 0
    write_pages(tmp_path)
    assert docs(str(tmp_path)) == 0
    text = part(tmp_path, "lindinger2020_figs5")
    # differences 20, -5 and 24: mean 13, deviation sqrt((49 + 324 + 121) / 2) = 15.7, over sqrt(3) 9.07
    line = {"mf L3": "-195.0", "star L3": "-182.0", "star - mf": "+13.0 ± 9.1", "star higher": "2/3"}
    assert rows(text) == {"boston": line}
    assert "splits 0 to 2" in text
    settings = "method.hidden_scale=0.1 training.batch_size=2560 training.num_samples=null training.average_last=0"
    assert f"`{settings}`" in text
    assert (tmp_path / "docs" / "images" / "lindinger2020_figs5.png").stat().st_size > 10_000


@pytest.mark.full
def test_a_metric_that_no_run_has_gets_no_grid(tmp_path):
    for method in ("mf", "star"):
        who = {"method": method, "num_layers": 3, "dataset": "boston", "budget": "laptop", "split": 0}
        write_toy(tmp_path / "results", {"tll": -2.5}, **who, **COST)
    assert fit_once.command("results", "export", f"results_dir={tmp_path}/results") == 0
    text = own_table.text("dgpbench_structures", pages.records(tmp_path)[0])
    assert "tll (nats" in text
    assert "num_parameters (" not in text
