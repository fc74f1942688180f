"""Every table and figure of the papers, end to end: its runs at budget smoke, then all that is made of them.

Two floors: one takes away the training, so that what surrounds it is tested in seconds; the other, marked ``full``,
trains.
"""

import csv
import io
import json
from pathlib import Path

import fit_once
import numpy as np
import pandas as pd
import pytest
import yaml

from dgpbench.report import published

ROOT = Path(__file__).resolve().parents[2]
MIRROR = ROOT.parent / "shared" / "data" / "mirror"
# laptop_study and its like are of no paper and have no split 0: tests/report/test_docs.py has them.
FILES = [path for path in sorted((ROOT / "conf" / "experiment").glob("*.yaml")) if "laptop_study" not in path.stem]
READ = {path.stem: yaml.safe_load(path.read_text()) for path in FILES}
ITEMS = {name: READ.get(values.get("like"), {}) | values for name, values in READ.items()}
# Methods that need further packages, and quantiles, which have no log-likelihood, have tests of their own.
SOME = dict.fromkeys(
    ("dgpbench_uci", "dgpbench_uci_extrapolation"),
    ("method=bayesian_ridge,deep_ensemble,gpr,sgp,sod", "method.num_layers=1,2"),
)
WITHOUT_PACKAGE = {"duan2020_table1": "ngboost", "duan2020_table3": "ngboost"}
# Without training, one depth will do where all have the same settings, and one method where the sizes are swept.
FEWER = {"hernandez2018_table511": ("method.num_layers=3",), "jain2021_table1": ("method.num_layers=1,3",)}
FEWER |= {"lindinger2020_table1": ("method.num_layers=1,3",)}
FEWER |= {f"lindinger2020_{name}": ("method=star",) for name in ("figs7", "figs8")}
# These show the runs of another item in the way of yet another one, and only the floor that trains has them.
TWINS = {f"hernandez2018_{name}" for name in ("fig431", "fig432", "fig511", "fig512", "fig522", "fig532")}
TWINS |= {f"hernandez2018_{name}" for name in ("table512", "table521", "table531")} | {"jain2021_fig4"}
TWINS |= {f"lindinger2020_{name}" for name in ("fig1", "fig4", "tables3")} | {"dgpbench_uci_extrapolation"}
DOWNLOADED = ("year", "airline")  # hundreds of megabytes
FROM_MIRROR = ("concrete", "kin8nm", "protein")


def dataset_of(item: str) -> str:
    """Return boston if the item sweeps it, since it needs no download, else the item's own data set."""
    swept = [name for sweep in ITEMS[item]["sweeps"] for name in str(sweep["dataset"]).split(",")]
    return "boston" if "boston" in swept else swept[0]


def narrowed(item: str, results: Path, *more: str) -> tuple[str, ...]:
    """The overrides that leave one split and one data set of an item."""
    own = ("split=0", f"dataset={dataset_of(item)}", "budget=smoke", f"results_dir={results}")
    return (item, *own, *SOME.get(item, ()), *more)


def columns(item: str, given: tuple[str, ...]) -> set[tuple[str, str]]:
    """(method, depth) of every run of an item, as its file has them and the overrides leave them."""
    only = dict(text.partition("=")[::2] for text in given[1:])
    found = set()
    for sweep in ITEMS[item]["sweeps"]:
        methods, depths = (str(sweep[key]).split(",") for key in ("method", "method.num_layers"))
        found |= {(method, depth) for method in methods for depth in depths}
    methods, depths = only.get("method"), only.get("method.num_layers")
    return {
        (method, depth)
        for method, depth in found
        if (methods is None or method in methods.split(",")) and (depths is None or depth in depths.split(","))
    }


def make_and_render(capsys, item: str, given: tuple[str, ...], results: Path) -> None:
    """Call each command for the item and check that nothing is missing, empty or failed."""
    capsys.readouterr()
    assert fit_once.command("reproduce", *given, "progress=false") == 0
    message = "".join(capsys.readouterr())
    for complaint in ("no run", "failed", "diverged", "refused", "incomplete", "left alone", "hold nothing"):
        assert complaint not in message
    assert fit_once.command("plan", *given, "--json") == 0
    planned = json.loads(capsys.readouterr().out)
    assert planned["counts"]["done"] == len(planned["runs"]) > 0
    assert {tuple(Path(run["directory"]).parts[-3].rsplit("-L", 1)) for run in planned["runs"]} == columns(item, given)
    on_disk = {str(path.parent) for path in Path(results).rglob("record.json")}
    assert {run["directory"] for run in planned["runs"]} <= on_disk
    if ITEMS[item].get("render"):
        check_table(capsys, given)
    if published.of_item(item):
        assert fit_once.command("compare", *given) == 0
        assert "incomplete" not in capsys.readouterr().out
    pictures = {path.stem: path for path in Path(results, "figures").glob("*.png")}
    if ITEMS[item]["kind"] == "figure":
        assert pictures[f"{item}-smoke"].stat().st_size > 10_000


def check_table(capsys, given: tuple[str, ...]) -> None:
    """Every cell of the table has its one split and a number."""
    assert fit_once.command("table", *given, "--format", "csv") == 0
    cells = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert cells
    for cell in cells:
        assert (cell["count"], cell["wanted"], cell["failed"]) == ("1", "1", "0")
        assert np.isfinite(float(cell["mean"]))


# Without training -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made_up(tmp_path_factory):
    return tmp_path_factory.mktemp("made-up")


@pytest.mark.full
@pytest.mark.parametrize("item", sorted(set(ITEMS) - TWINS - set(WITHOUT_PACKAGE)))
def test_an_item_renders_the_runs_that_it_plans(item, made_up, monkeypatch, capsys):
    fit_once.without_training(monkeypatch)
    make_and_render(capsys, item, narrowed(item, made_up, *FEWER.get(item, ())), made_up)


def test_a_table_of_elbos_uses_the_mean_of_the_last_tenth(made_up, monkeypatch, capsys):
    fit_once.without_training(monkeypatch)
    given = narrowed("lindinger2020_tables5", made_up)
    assert fit_once.command("reproduce", *given, "progress=false") == 0
    (trace, *_) = made_up.rglob("interpolation/boston/mf-L3/*/*natgrad*/trace.parquet")
    values = pd.read_parquet(trace)["elbo"].to_numpy()
    capsys.readouterr()
    assert fit_once.command("table", *given, "--format", "csv") == 0
    first = next(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert len(values) == 20
    assert values.max() > values[-1]
    assert float(first["mean"]) == pytest.approx(values[-2:].mean(), abs=1e-9)


def plan_of(capsys, *given: str) -> list[dict]:
    capsys.readouterr()
    assert fit_once.command("plan", *given, "--json") == 0
    return json.loads(capsys.readouterr().out)["runs"]


def settings_of(runs: list[dict], key: str) -> set[str]:
    found = [dict(text.partition("=")[::2] for text in run["overrides"]) for run in runs]
    return {each[key] for each in found if key in each}


@pytest.mark.parametrize(
    ("budget", "iterations", "sizes"),
    [
        ("smoke", "50", {"4", "8", "16", "32"}),
        ("laptop", "2000", {"32", "64", "128", "256"}),
        ("paper", "2000", {"32", "64", "128", "256"}),
    ],
)
def test_a_smoke_holds_what_an_item_sets_itself_and_other_budgets_do_not(budget, iterations, sizes, capsys, tmp_path):
    given = ("lindinger2020_fig4", "method=mf", f"budget={budget}", f"results_dir={tmp_path}")
    runs = plan_of(capsys, *given)
    assert settings_of(runs, "training.max_iterations") == {iterations}
    assert settings_of(runs, "method.num_inducing") == sizes


def test_values_of_the_command_line_are_not_scaled(capsys, tmp_path):
    given = ("lindinger2020_fig4", "method=mf", "training.max_iterations=60", "budget=smoke")
    runs = plan_of(capsys, *given, f"results_dir={tmp_path}")
    assert settings_of(runs, "training.max_iterations") == {"60"}


@pytest.mark.full
def test_a_figure_along_m_counts_its_finished_runs(monkeypatch, capsys, tmp_path):
    fit_once.without_training(monkeypatch)
    given = narrowed("lindinger2020_fig4", tmp_path, "method=mf")
    assert fit_once.command("reproduce", *given, "method.num_inducing=4,16", "progress=false") == 0
    assert fit_once.command("figure", *given, "--output", str(tmp_path / "picture.svg")) == 0
    assert "2 of 4 runs" in (tmp_path / "picture.svg").read_text()


def test_figs6_plans_enough_samples_for_its_test_of_normality(monkeypatch, tmp_path):
    fit_once.without_training(monkeypatch)
    given = narrowed("lindinger2020_figs6", tmp_path)
    assert fit_once.command("reproduce", *given, "progress=false") == 0
    (record,) = tmp_path.rglob("record.json")
    assert json.loads(record.read_text())["config"]["prediction"]["num_samples"] >= 20


@pytest.mark.full
@pytest.mark.parametrize("typed", ["false", "False", "FALSE"])
def test_a_switch_on_the_command_line_is_one_run_however_it_is_spelt(typed, monkeypatch, capsys, tmp_path):
    fit_once.without_training(monkeypatch)
    given = ("lindinger2020_figs8", "method=mf", "method.num_layers=3", "dataset=boston", "budget=smoke")
    given = (*given, f"training.early_stopping={typed}", f"results_dir={tmp_path}")
    assert fit_once.command("reproduce", *given, "progress=false") == 0
    (run,) = plan_of(capsys, *given)
    assert run["state"] == "done"


# With training --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return tmp_path_factory.mktemp("trained")


@pytest.mark.full
@pytest.mark.timeout(900)  # an item takes two minutes alone on two cores, and tests share theirs
@pytest.mark.parametrize("item", ITEMS)
def test_an_item_at_smoke_is_run_and_rendered_whole(item, trained, monkeypatch, capsys):
    dataset = dataset_of(item)
    if item in WITHOUT_PACKAGE:
        pytest.importorskip(WITHOUT_PACKAGE[item])
    if dataset in DOWNLOADED:
        pytest.skip(f"{item} is about {dataset} alone, which would have to be downloaded")
    if dataset in FROM_MIRROR:
        if not MIRROR.is_dir():
            pytest.skip(f"{item} needs {dataset}, and the upstream files are not at {MIRROR.parent}")
        monkeypatch.setenv("DGPBENCH_MIRROR", str(MIRROR))
    given = narrowed(item, trained)
    make_and_render(capsys, item, given, trained)
    picture = trained / f"{item}.png"
    assert fit_once.command("figure", *given, "--output", str(picture)) == 0
    assert picture.stat().st_size > 10_000
