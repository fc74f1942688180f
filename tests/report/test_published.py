"""The papers' numbers and the standard errors derived from the printed spreads."""

import math
from collections import Counter

import pandas as pd
import pytest

from dgpbench.report.published import Published, folder, half_unit, of_item, read_published, read_table


def entry(value: str, spread: str, kind: str, repetitions: int = 10) -> Published:
    return Published("p", "t", "interpolation", "tll", "boston", "mf", 2, value, spread, kind, repetitions)


@pytest.mark.parametrize("name", ["published.csv", "baselines.csv"])
def test_every_line_of_a_file_is_read_once(name):
    lines = (folder() / name).read_text().splitlines()[1:]
    keys = ("paper", "table", "task", "metric", "dataset", "method", "num_layers")
    keys += ("value_text", "spread_text", "spread_kind", "repetitions")
    again = [",".join(str(getattr(each, key)) for key in keys) for each in read_table(name)]
    assert again == lines
    assert set(read_table(name)) <= set(read_published())


def test_the_kinds_of_published_spread_are_counted():
    numbers = read_table("published.csv")
    assert Counter(each.spread_kind for each in numbers) == {"stderr": 350, "variance": 119, "none": 38}
    assert sum(each.spread_text != "" and float(each.spread_text) == 0 for each in numbers) == 34
    assert {each.spread_kind for each in read_table("baselines.csv")} == {"deviation"}


def test_means_of_numbers_published_by_split():
    """Of MC dropout on boston's twenty classic splits."""
    values = pd.read_csv(folder() / "mc_dropout_classic.csv").query("dataset == 'boston'")["rmse"]
    found = of_item("gal2016_classic")["rmse", "boston", "mc_dropout", 1]
    assert found.value == pytest.approx(values.mean(), abs=6e-5)
    assert found.stderr == pytest.approx(values.std() / math.sqrt(20), abs=6e-5)


@pytest.mark.parametrize(
    ("given", "stderr"),
    [
        (entry("-2.43", "0.05", "stderr"), 0.05),
        (entry("2.520", "0.051", "variance", 5), math.sqrt(0.051 / 5)),
        (entry("-2.41", "0.25", "deviation", 20), 0.25 / math.sqrt(20)),
        (entry("-2.91", "0.00", "stderr"), 0.005),
        (entry("0.06", "0.0", "stderr"), 0.005),
        (entry("0.0", "0.0", "stderr"), 0.05),
        (entry("5.293", "", "none", 1), None),
    ],
)
def test_standard_error_of_a_printed_spread(given, stderr):
    assert given.stderr == (None if stderr is None else pytest.approx(stderr))


def test_no_published_standard_error_is_zero():
    assert all(each.stderr is None or each.stderr > 0 for each in read_published())


@pytest.mark.parametrize(("text", "half"), [("-2.43", 0.005), ("510", 0.5), ("2.83", 0.005), ("-0.040", 0.0005)])
def test_half_a_unit_of_the_last_digit(text, half):
    assert half_unit(text) == pytest.approx(half)


def test_an_item_has_its_own_numbers_only():
    numbers = of_item("lindinger2020_table1")
    assert len(numbers) == 64
    assert numbers["tll", "boston", "star", 3].text == "-2.43 (0.05)"
    assert of_item("lindinger2020_fig1") == {}
