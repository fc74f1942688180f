"""The picture of one run, drawn from its files without a display."""

import subprocess
import sys

import matplotlib.image
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from one_record import CONFIG, DATA
from scipy.stats import binom

from dgpbench.config.canonical import config_hash
from dgpbench.errors import UserError
from dgpbench.report.figures import run_figure as pictures
from dgpbench.runs import store
from dgpbench.runs.identity import Identity

WHO = {"task": "interpolation", "dataset": "a$b$c", "method": "star", "num_layers": 3, "protocol": "lindinger2020"}
WHO |= {"budget": "smoke", "split": 0, "seed": 0, "overrides": {}}


def points_of(rows: int) -> pd.DataFrame:
    generator = np.random.default_rng(0)
    y = generator.normal(size=rows)
    return pd.DataFrame(
        {
            "row": np.arange(rows),
            "y": y,
            "mean": y + 0.1,
            "variance": np.full(rows, 0.04),
            "pit": generator.uniform(size=rows),
        }
    )


def trace_of(validation) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "iteration": [10, 20, 30],
            "seconds": [1.0, 2.0, 3.0],
            "elbo": [-9.0, -2.0, -1.0],
            "validation_tll": validation,
        }
    )


def axes():
    return Figure().subplots()


def record_of() -> dict:
    empty = dict.fromkeys(("reason", "traceback", "git"))
    mappings = {"config": CONFIG, "data": DATA, "seconds": {"total": 1.0}, "versions": {}, "host": {}}
    rest = {
        "status": "done",
        "iterations": 30,
        "config_hash": config_hash(CONFIG),
        "started": "",
        "finished": "",
        "notes": [],
    }
    return empty | mappings | rest | {"identity": WHO, "scores": {"tll": -2.4, "rmse": 2.9}}


def test_at_most_300_rows_are_drawn_the_same_ones_each_time_with_both_ends():
    points = points_of(4573)
    drawn = pictures.thinned(points)
    assert len(drawn) == 300
    assert drawn["y"].min() == points["y"].min()
    assert drawn["y"].max() == points["y"].max()
    shuffled = points.sample(frac=1, random_state=1)
    assert pictures.thinned(shuffled)["row"].tolist() == drawn["row"].tolist()
    assert len(pictures.thinned(points_of(51))) == 51


def test_error_bars_reach_two_standard_deviations_either_side_of_the_mean():
    ax = axes()
    pictures.predicted_against_observed(points_of(5), ax)
    (bars,) = ax.containers
    lengths = [np.ptp(segment[:, 1]) for segment in bars[2][0].get_segments()]
    np.testing.assert_allclose(lengths, 4 * 0.2)
    assert "original units" in ax.get_xlabel()
    assert "original units" in ax.get_ylabel()


def test_error_bars_of_quantiles_are_central_intervals():
    quantiles = pd.DataFrame({"y": [0.0, 1.0], "q05": [-1.0, 0.5], "q50": [0.5, 1.0], "q95": [3.0, 1.5]})
    ax = axes()
    pictures.predicted_against_observed(quantiles, ax)
    (bars,) = ax.containers
    segments = sorted(segment[:, 1].tolist() for segment in bars[2][0].get_segments())
    np.testing.assert_allclose(segments, [[-1.0, 3.0], [0.5, 1.5]])
    assert "90 %" in ax.get_title()


def test_a_picture_shows_only_what_the_predictions_contain():
    points = points_of(51)
    without_pit, means = points.drop(columns="pit"), points[["row", "y", "mean"]]
    assert len(pictures.run_figure(without_pit, trace_of([None] * 3), {"rmse": 3.0}, "a title").axes) == 2
    with pytest.raises(UserError, match="neither a spread nor a distribution function"):
        pictures.run_figure(means, None, {"rmse": 3.0}, "a title")


def test_the_pit_histogram_is_a_density_beside_the_binomial_band():
    ax = axes()
    pictures.pit_histogram(points_of(700), ax)
    assert sum(bar.get_height() * bar.get_width() for bar in ax.containers[0]) == pytest.approx(1)
    low, high = pictures.uniform_band(700, 20)
    assert low < 1 < high
    inside = binom.cdf(high * 35, 700, 0.05) - binom.cdf(low * 35 - 1, 700, 0.05)
    assert 0.95 <= inside < 0.98


@pytest.mark.parametrize(("validation", "expected"), [([None] * 3, 1), ([np.nan] * 3, 1), ([None, 0.5, 0.6], 2)])
def test_the_trace_has_a_second_axis_only_where_rows_were_held_out(validation, expected):
    ax = axes()
    pictures.training_trace(trace_of(validation), ax)
    assert len(ax.figure.axes) == expected


@pytest.mark.parametrize(("trace", "panels"), [(None, 2), (trace_of([None] * 3), 3), (trace_of([None] * 3)[:0], 2)])
def test_the_picture_has_two_panels_without_a_trace(trace, panels):
    figure = pictures.run_figure(points_of(51), trace, {"tll": -2.5, "rmse": 3.0}, "a title")
    assert len(figure.axes) == panels
    assert "TLL -2.500 nats" in figure.get_suptitle()


@pytest.mark.parametrize("rows", [1, 2, 51])
def test_a_picture_is_made_from_the_files_of_a_run(tmp_path, rows):
    directory = Identity(**WHO).directory(tmp_path)
    store.write_run(directory, record_of(), points_of(rows), trace_of([None] * 3))
    written = pictures.save_run_figure(directory)
    assert written == directory / "figure.png"
    assert matplotlib.image.imread(written).std() > 0.01
    assert pictures.save_run_figure(directory, tmp_path / "new" / "figure.svg").read_text().startswith("<?xml")
    assert store.verify_run(directory) == []


def test_a_damaged_run_is_not_drawn(tmp_path):
    directory = Identity(**WHO).directory(tmp_path)
    store.write_run(directory, record_of(), points_of(5))
    (directory / "points.parquet").write_bytes(b"x")
    with pytest.raises(ValueError, match="bytes long instead of"):
        pictures.save_run_figure(directory, tmp_path / "figure.png")


def test_plotting_a_run_without_points_names_the_reason(tmp_path):
    directory = Identity(**WHO).directory(tmp_path)
    store.write_run(directory, record_of() | {"status": "failed"})
    with pytest.raises(ValueError, match="no predictions"):
        pictures.save_run_figure(directory, tmp_path / "figure.png")


@pytest.mark.full
def test_drawing_imports_no_pyplot_and_keeps_the_callers_style():
    code = (
        "import sys, matplotlib; before = dict(matplotlib.rcParams); import dgpbench.report.figures.run_figure as r\n"
        "import numpy as np, pandas as pd\n"
        "x = np.linspace(0.1, 0.9, 5); p = pd.DataFrame({'y': x, 'mean': x, 'variance': x, 'pit': x})\n"
        "r.run_figure(p, None, {}, 'title')\n"
        "print('tensorflow' in sys.modules, 'matplotlib.pyplot' in sys.modules, before == dict(matplotlib.rcParams))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.stdout.split() == ["False", "False", "True"], ended.stderr
