"""A user's own table with categories, gaps, dates and flags, from the file to record, summary and picture."""

import shutil

import fit_once
import numpy as np
import pandas as pd
import pytest

from dgpbench.data import datasets
from dgpbench.predictive import posterior_file
from dgpbench.predictive.mixture import GaussianMixture
from dgpbench.runs import store
from dgpbench.runs.figure_data import partial_dependence, rows_of_one_feature
from dgpbench.runs.problem import prepare
from dgpbench.runs.resolve import resolve_overrides

WORDS = ("dataset.missing=impute", "dataset.categorical=auto", "dataset.dates=auto")


def houses() -> pd.DataFrame:
    draws = np.random.default_rng(0)
    area, red = draws.normal(100, 20, 60).round(1), draws.random(60) < 0.5
    frame = pd.DataFrame({"area": area, "colour": np.where(red, "red", "blue"), "price": 2 * area + 30 * red})
    frame["price"] += draws.normal(0, 5, 60).round(2)
    frame["sold"] = pd.date_range("2020-01-01", periods=60, freq="9D").strftime("%Y-%m-%d")
    frame["garden"] = draws.random(60) < 0.5
    frame.loc[[3, 20, 41], "area"] = np.nan
    return frame


@pytest.fixture(scope="module")
def given(tmp_path_factory) -> tuple[str, ...]:
    path = tmp_path_factory.mktemp("own") / "houses.csv.gz"
    houses().to_csv(path, index=False)
    return ("dataset=csv", f"dataset.path={path}", "dataset.target=price", *WORDS)


@pytest.fixture(scope="module")
def finished(given, tmp_path_factory) -> fit_once.Run:
    return fit_once.run(tmp_path_factory.mktemp("results"), *given, "method=gpr", "budget=smoke")


@pytest.mark.full
def test_the_record_describes_the_encoding_of_each_column(finished):
    data, frame = finished.record["data"], houses()
    train = sorted(set(range(60)) - set(finished.points["row"]))
    area = frame["area"].iloc[train]
    assert data["name"].startswith("houses-")
    assert data["columns"][0]["fill"] == area.median()
    assert data["columns"][0]["gaps"] == int(area.isna().sum())
    assert data["features"] == ["area", "area=(missing)", "colour=blue", "colour=red", "sold", "garden"]
    assert data["d"] == 6
    assert np.isfinite(list(finished.scores.values())).all()


def test_the_summary_and_show_list_the_columns_and_the_calibration(finished, capsys):
    assert fit_once.command("show", str(finished.directory)) == 0
    text = capsys.readouterr().out
    assert "  colour: 2 columns of 0 and 1, one for each category (blue, red)" in text
    assert "  sold: days since 1970-01-01" in text
    assert "filled with the training rows' median" in text
    assert f"95 % intervals hold {100 * finished.scores['coverage_95']:.1f} % of 6 rows" in text


def test_show_draws_partial_dependence_of_a_users_own_table(finished, tmp_path):
    assert fit_once.command("show", str(finished.directory), "--plot", "--output", str(tmp_path / "figure.svg")) == 0
    picture = (tmp_path / "figure.svg").read_text()
    for words in ("observed price (original units)", "Partial dependence", "colour", "area"):
        assert words in picture


@pytest.mark.full
def test_a_run_of_a_users_own_table_is_redone_where_the_table_is_named(given, finished, tmp_path, capsys):
    run = str(finished.directory)
    assert fit_once.command("results", "redo", run) == 2
    assert "is of a table of your own, houses-" in capsys.readouterr().err
    assert fit_once.command("results", "redo", run, *given) == 0
    assert "the scores agree bit for bit" in capsys.readouterr().out
    results = finished.directory.parents[5]
    settings = (*given, "method=gpr", "budget=smoke", f"results_dir={results}")
    assert fit_once.command("results", "redo", *settings) == 0
    assert "the scores agree bit for bit" in capsys.readouterr().out
    other = tmp_path / "houses.csv"
    houses().assign(price=lambda frame: frame["price"] + (frame.index == 7)).to_csv(other, index=False)
    moved = ("dataset=csv", f"dataset.path={other}", *given[2:])
    assert fit_once.command("results", "redo", run, *moved) == 1
    assert "the data differ: digest_xy" in capsys.readouterr().out
    assert fit_once.command("results", "redo", run, *given, "seed=3") == 2
    assert "seed=3 cannot be changed" in capsys.readouterr().err


def test_validate_takes_the_table_and_refuses_it_without_the_settings(given, capsys):
    assert fit_once.command("validate", *given, "method=gpr") == 0
    assert "  colour: 2 columns of 0 and 1, one for each category (blue, red)" in capsys.readouterr().out
    assert fit_once.command("validate", *given[:3], "method=gpr") == 2
    assert "dataset.categorical=auto" in capsys.readouterr().err


def test_the_rows_of_one_feature_are_kept_in_original_units(tmp_path):
    x = np.random.default_rng(0).normal(5, 3, 40)
    overrides = fit_once.write_table(tmp_path / "one.csv", x[:, None], 2 * x + 1)
    run = resolve_overrides([*overrides, "method=gpr"])
    problem = prepare(run, datasets.load(run.dataset))
    for rows, numbers in zip(
        posterior_file.rows(rows_of_one_feature(problem)), vars(problem.split).values(), strict=True
    ):
        np.testing.assert_allclose(rows, np.column_stack([x, 2 * x + 1])[numbers])


class Line:
    """y = 2 area + 30 [red] + 10 [blue] with a standard deviation of 4 for any other columns."""

    def __init__(self, problem):
        self.problem = problem

    def predict(self, X, seed):
        del seed
        scaler, names = self.problem.scaler, self.problem.encoder.feature_names
        raw = X * scaler.scale_X + scaler.mean_X
        at = [list(scaler.kept).index(names.index(name)) for name in ("area", "colour=red", "colour=blue")]
        y = raw[:, at] @ [2, 30, 10]
        means = (y[None, :, None] - scaler.mean_y) / scaler.scale_y
        return GaussianMixture(means, np.full_like(means, (4 / scaler.scale_y) ** 2))


def test_partial_dependence_is_the_mean_prediction_with_one_column_changed(given):
    run = resolve_overrides([*given, "method=gpr", "budget=smoke", "task.train_fraction=0.5"])  # 30 rows: all are used
    problem = prepare(run, datasets.load(run.dataset))
    effects = posterior_file.effects(partial_dependence(Line(problem), problem, problem.train.X, seed=0))
    frame = houses().iloc[problem.split.train]
    area, red = frame["area"].fillna(frame["area"].median()), frame["colour"] == "red"
    values, mean, deviation = effects[0].T
    np.testing.assert_allclose(mean, 2 * values + 10 + 20 * red.mean())
    np.testing.assert_allclose(values[[0, -1]], np.quantile(area, [0.05, 0.95]))
    np.testing.assert_allclose(deviation, 4)
    np.testing.assert_allclose(effects[1], [[0, 2 * area.mean() + 10, 4], [1, 2 * area.mean() + 30, 4]])
    np.testing.assert_allclose(effects[3][:, 1], 2 * area.mean() + 10 + 20 * red.mean())  # a garden changes nothing


def test_a_directory_that_was_renamed_to_that_of_another_table_is_not_its_run(given, finished, tmp_path, capsys):
    """The settings of both runs are equal: the name alone has the table's digest."""
    path = tmp_path / "other.csv"
    houses()[5:].to_csv(path, index=False)
    words = [f"dataset.path={path}" if text.startswith("dataset.path=") else text for text in given]
    words += ["method=gpr", "budget=smoke", f"results_dir={tmp_path}"]
    other = tmp_path / fit_once.identity(*words).directory
    shutil.copytree(finished.directory, other)
    assert fit_once.command("run", *words) == 2
    assert f"{other} holds the record of another run, interpolation/houses-" in capsys.readouterr().err
    assert store.verify_run(other) == [f"{other} holds the record of another run"]
