"""The second row of a run's picture: one feature with bands and samples, and partial dependence."""

import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy.stats import norm

from dgpbench.predictive import posterior_file
from dgpbench.predictive.scores import describe_coverage
from dgpbench.report.figures import run_figure as pictures

GRID_X, GRID_Y = np.array([0.0, 1.0, 2.0]), np.linspace(-6, 6, 241)
DENSITY = norm.pdf(GRID_Y, GRID_X[:, None] - 1, 0.8)
GRID = (GRID_X, GRID_Y, DENSITY, np.zeros((4, 3)))
COLUMNS = [
    {"column": "a$b", "kind": "number"},
    {"column": "colour", "kind": "category", "categories": ["blue", "red"]},
    {"column": "sold", "kind": "date"},
]
EFFECTS = {
    0: np.array([[0.0, 5, 1], [2, 7, 2], [4, 9, 3], [6, 1, 1], [8, 1, 1]]),
    1: np.array([[1.0, 4, 0.5]]),
    2: np.array([[19723.0, 4, 0.5], [20000.0, 4, 0.5]]),
}


@pytest.mark.parametrize("p", [0.025, 0.25, 0.5, 0.975])
def test_quantiles_of_a_density_on_a_grid_are_those_of_the_normal(p):
    np.testing.assert_allclose(pictures.quantiles(GRID_Y, DENSITY, p), norm.ppf(p, GRID_X - 1, 0.8), atol=2e-3)


def test_bands_are_the_central_shares_and_the_rows_stand_over_them():
    rows = (np.array([[0.0, 1], [1, 2]]), np.array([[2.0, 3]]))
    ax = Figure().subplots()
    pictures.data_and_bands(GRID, rows, "depth", "price", ax)
    wide, narrow, samples, training, test = ax.collections
    for band, share in ((wide, 0.95), (narrow, 0.5)):
        y = band.get_paths()[0].vertices[:, 1]
        expected = norm.ppf([(1 - share) / 2, (1 + share) / 2], [-1, 1], 0.8)  # at the left and at the right end
        np.testing.assert_allclose([y.min(), y.max()], expected, atol=2e-3)
    assert len(samples.get_offsets()) == 12
    assert training.get_offsets().tolist() == rows[0].tolist()
    assert test.get_offsets().tolist() == rows[1].tolist()
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("depth", "price (original units)")


def test_partial_dependence_has_two_deviations_one_scale_names_and_dates():
    effects = posterior_file.effects(posterior_file.of_effects(EFFECTS))
    _, draw = pictures.second_row({"columns": COLUMNS, "dropped": []}, posterior_file.of_effects(effects), "price")
    figure = Figure(figsize=(11, 4))
    draw(figure)
    figure.canvas.draw()
    number, category, date = figure.axes
    assert number.lines[0].get_data()[1].tolist() == [5, 7, 9, 1, 1]
    assert number.collections[0].get_paths()[0].vertices[:, 1].max() == 9 + 2 * 3
    assert [tick.get_text() for tick in category.get_xticklabels()] == ["red"]  # category number 1
    assert any(tick.get_text().startswith("2024-0") for tick in date.get_xticklabels())
    assert len({ax.get_ylim() for ax in figure.axes}) == 1


def test_a_run_without_data_panels_has_no_second_row():
    assert pictures.second_row({"dropped": []}, {"mean_1": np.zeros(3)}, "y") is None


def test_the_second_row_stands_below_the_panels_of_every_run():
    import pandas as pd

    y = np.linspace(0, 1, 20)
    points = pd.DataFrame({"y": y, "mean": y, "variance": 0.1, "pit": y})
    below = pictures.second_row({"dropped": ["b"], "features": ["b", "depth"]}, posterior_file.of_grid(*GRID), "price")
    figure = pictures.run_figure(points, None, {}, "title", target="price", below=below)
    assert len(figure.axes) == 3
    assert {ax.get_xlabel() for ax in figure.axes} >= {"observed price (original units)", "depth"}


@pytest.mark.parametrize(
    ("coverage", "rows", "words"),
    [
        (47 / 51, 51, "95 % intervals hold 92.2 % of 51 rows, within chance (88.2 % to 100.0 %)"),
        (40 / 51, 51, "95 % intervals hold 78.4 % of 51 rows, too few for chance (88.2 % to 100.0 %): too narrow"),
        (1.0, 1000, "95 % intervals hold 100.0 % of 1,000 rows, too many for chance (93.6 % to 96.3 %): too wide"),
    ],
)
def test_calibration_of_intervals_is_stated_in_one_sentence(coverage, rows, words):
    """Binomial(51, 0.95): P(K <= 44) = 0.013, P(K <= 45) = 0.041; 936 and 963 of 1,000."""
    assert describe_coverage(coverage, rows) == words
