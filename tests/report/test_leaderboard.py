"""The report in a browser: choice, ranks, pictures, sorting, search, and the runs behind a number."""

import json
import os
import re
import shutil
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, expect, sync_playwright
from toys import write_toy

from dgpbench.cli import main

EVIL = "<script>alert('x')<i>&\"$a$"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
METHODS = {("sgp", 1): 10.0, ("mf", 2): 100.0, ("mf", 3): 50.0}  # seconds of a run
TLL = {  # by data set and split, of sgp L1, mf L2 and mf L3; the splits of energy rank otherwise than their means
    "boston": [(-3.0, -2.5, -2.0), (-3.1, -2.6, -2.1)],
    "energy": [(-3.0, -2.9, -2.0), (-2.5, -2.0, -2.2)],
    "concrete": [(-3.0, -2.0, -2.4), (-3.0, -2.0, -1.9)],
}


@pytest.fixture(scope="module", autouse=True)
def no_waiting_for_the_disk_in_this_file():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda handle: None)
        yield


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Three methods on three data sets; an incomplete one, one at changed settings, another budget, a hostile name."""
    folder = tmp_path_factory.mktemp("leaderboard") / "results"
    for dataset, splits in TLL.items():
        for split, scores in enumerate(splits):
            for (method, layers), tll in zip(METHODS, scores, strict=True):
                seconds = {"tracing": 1.0, "training": 1.0, "prediction": 1.0, "total": METHODS[method, layers]}
                given = {"tll": tll, "rmse": -tll if method == "sgp" else 4 - tll}
                write_toy(folder, given, dataset=dataset, method=method, num_layers=layers, split=split,
                          record={"seconds": seconds})  # fmt: skip
    write_toy(folder, {"tll": -1.0}, method="star", num_layers=2, split=0)
    write_toy(folder, status="failed", method="star", num_layers=2, split=1)
    for split in range(2):
        write_toy(folder, {"tll": -1.0}, dataset="energy", method="star", num_layers=2, split=split)
        write_toy(folder, {"tll": -1.5}, method="mf", split=split, overrides={"training.learning_rate": 0.1})
    for dataset in ("boston", "energy"):
        write_toy(folder, {"tll": -1.0}, dataset=dataset, method="sgp", num_layers=1, budget="smoke")
        card = "a card" if dataset == "energy" else None
        write_toy(folder, {"tll": -2.0}, dataset=dataset, method="mf", budget="smoke", record={"gpu": card})
    write_toy(folder, {"tll": -1.25}, dataset=EVIL, method="gpr", num_layers=1, budget="laptop")
    return folder


@pytest.fixture(scope="module")
def report(results) -> Path:
    assert main(["report", str(results)]) == 0
    return results / "report.html"


@pytest.fixture(scope="module")
def browser():
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None and os.environ.get("CI") == "true":
        pytest.fail("continuous integration opens the report in a browser: install chromium")
    if program is None:
        pytest.skip("no chromium on this machine: the page is not opened in a browser")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def page(browser, report):
    """The report as it opens; an error of its script or a request to anywhere else fails the test."""
    context = browser.new_context()
    opened, problems = context.new_page(), []
    opened.on("pageerror", lambda error: problems.append(str(error)))
    opened.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    opened.on("request", lambda request: problems.append(request.url) if "://" in request.url[5:] else None)
    opened.set_default_timeout(60_000)  # ms; a busy machine takes long
    expect.set_options(timeout=60_000)
    opened.goto(report.as_uri())
    expect(opened.locator("html[data-ready]")).to_be_attached()
    yield opened
    context.close()
    assert problems == []


def board(page: Page) -> dict[str, list[str]]:
    """The rows of the leaderboard by method, in their order."""
    rows = page.locator("#board tbody tr").all()
    return {row.locator("th").inner_text(): row.locator("td").all_inner_texts() for row in rows}


def box(page: Page, name: str) -> Locator:
    return page.get_by_role("checkbox", name=name)


def ranks(page: Page) -> dict[str, str]:
    return {name: cells[0] for name, cells in board(page).items()}


def test_methods_are_ranked_by_the_mean_over_data_sets_of_ranks_of_means(page):
    assert list(ranks(page).items()) == [("mf L3", "1.33"), ("mf L2", "1.67"), ("sgp L1", "3.00"), ("star L2", "")]
    assert board(page)["sgp L1"] == ["3.00", "10.0", "-3.050 (0.050)", "-3.000 (0.000)", "-2.750 (0.250)"]
    assert board(page)["star L2"] == ["", "", "1/2", "", "-1.000 (0.000)"]
    assert "3 of 4 methods have every split of the 3 chosen data sets" in page.get_by_role("status").inner_text()


@pytest.mark.full
def test_ranks_and_critical_difference_are_those_of_the_command_line(page, results, tmp_path):
    narrowed = ("dataset=boston,energy,concrete", "method=sgp,mf", "split=range(2)", f"results_dir={results}")
    assert main(["figure", "lindinger2020_table1", *narrowed, "--output", str(tmp_path / "table.svg")]) == 0
    (figure,) = tmp_path.glob("*ranks_tll.svg")
    drawn = re.findall(r"<text[^>]*>([^<]*)</text>", figure.read_text())
    printed = {name.lower(): rank for name, rank in re.findall(r"(\w+ L\d) \((\d\.\d\d)\)", " ".join(drawn))}
    assert {name.lower(): rank for name, rank in ranks(page).items() if rank} == {
        name.lower(): rank for name, rank in printed.items()
    }
    (bound,) = re.findall(r"ranks at most (\d\.\d\d) apart", " ".join(drawn))
    assert f"ranks at most {bound} apart" in page.locator("#ranks").inner_text()


def test_friedmans_statistic_is_that_of_the_published_tables(page, results):
    from dgpbench.experiments import items
    from dgpbench.report import html, html_grids
    from dgpbench.report.collect import collect

    narrowed = ["dataset=boston,energy,concrete", "method=sgp,mf", "split=range(2)", f"results_dir={results}"]
    frame = html_grids.with_groups(collect(results))
    section = html.item_section(items.load("lindinger2020_table1", narrowed), frame)
    (grid,) = [grid for grid in section.grids if grid.caption.startswith("Mean ranks, tll")]
    (statistic,) = re.findall(r"chi-squared (\d+\.\d\d)", " ".join(grid.notes))
    assert f"chi-squared {statistic}, critical value 5.99; no difference found" in page.locator("#ranks").inner_text()


def test_bars_join_methods_within_the_critical_difference(page):
    """Of three methods on three data sets it is 2.343 sqrt(3 * 4 / (6 * 3)) = 1.91."""
    assert page.locator("#ranks .bar").count() == 1
    assert "(mf L3 to sgp L1)" in page.locator("#ranks").inner_text()
    assert page.get_by_role("img", name="Mean ranks: mf L3 1.33, mf L2 1.67, sgp L1 3.00").is_visible()


def test_ranks_follow_the_chosen_data_sets(page):
    box(page, "energy").uncheck()
    assert list(ranks(page).values()) == ["1.50", "1.50", "3.00", ""]
    box(page, "concrete").uncheck()
    assert list(ranks(page).items()) == [("mf L3", "1.00"), ("mf L2", "2.00"), ("sgp L1", "3.00"), ("star L2", "")]
    assert "two data sets" in page.locator("#ranks").inner_text()
    assert "every split of the data set boston and are ranked" in page.get_by_role("status").inner_text()


def test_scores_and_ranks_follow_the_metric(page):
    page.get_by_role("combobox", name="metric").select_option("rmse")
    assert next(iter(ranks(page).items())) == ("sgp L1", "1.00")
    assert board(page)["sgp L1"][2] == "3.050 (0.050)"
    expect(page.locator("#board caption")).to_contain_text("rmse (units of y, lower is better)")


def test_the_board_follows_the_budget(page):
    page.get_by_role("combobox", name="budget").select_option("laptop")
    assert board(page) == {"gpr L1": ["1.00", "12.0", "-1.250"]}
    assert box(page, EVIL).is_checked()
    page.get_by_role("combobox", name="budget").select_option("paper")
    assert len(board(page)) == 4


def test_seconds_on_a_gpu_are_not_averaged_with_those_of_processors(page):
    page.get_by_role("combobox", name="budget").select_option("smoke")
    assert {name: cells[:2] for name, cells in board(page).items()} == {
        "sgp L1": ["1.00", "12.0"],
        "mf L3": ["2.00", ""],
    }
    assert "Seconds are of runs on a processor; 1 run on a GPU is left out." in page.locator("main").inner_text()


def test_runs_with_changed_settings_are_rows_of_their_own_on_request(page):
    box(page, "with changed settings").check()
    assert any("learning_rate" in name and name.startswith("mf L3") for name in board(page))
    assert box(page, "boston").is_checked()


def test_a_search_leaves_the_methods_that_match_and_their_ranks(page):
    page.get_by_role("searchbox", name="search methods").fill("mf")
    assert ranks(page) == {"mf L3": "1.33", "mf L2": "1.67"}


@pytest.mark.parametrize("how", ["mouse", "keyboard"])
def test_a_heading_sorts_its_column_and_incomplete_cells_stay_last(page, how):
    heading = page.locator("#board").get_by_role("columnheader", name="boston")
    for direction in ("ascending", "descending"):
        if how == "mouse":
            heading.click()
        else:
            heading.get_by_role("button").focus()
            page.keyboard.press("Enter")
        expect(heading).to_have_attribute("aria-sort", direction)
        shown = [cells[2] for cells in board(page).values()]
        means = [float(text.partition(" ")[0]) for text in shown[:3]]
        assert means == sorted(means, reverse=direction == "descending")
        assert shown[3] == "1/2"


@pytest.mark.parametrize("how", ["mouse", "keyboard"])
def test_a_number_leads_to_its_runs_with_hash_commit_and_command(page, results, how):
    number = page.locator("#board").get_by_role("link", name="-3.050 (0.050)")
    if how == "mouse":
        number.click()
    else:
        number.focus()
        page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "runs"
    rows = page.locator("#run-list tbody tr")
    expect(rows).to_have_count(2)
    heading = page.locator("#run-list thead th").all_inner_texts()
    shown = dict(zip([text.strip() for text in heading], rows.nth(1).locator("td").all_inner_texts(), strict=True))
    record = results / "runs/interpolation/boston/sgp-L1/lindinger2020-paper/split1-seed0"
    assert (shown["method"], shown["split"], shown["tll"], shown["commit"]) == ("sgp L1", "1", "-3.1", "of a wheel")
    assert shown["hash"] == json.loads((record / "record.json").read_text())["config_hash"][:12]
    assert shown["command"] == (
        "dgpbench run method=sgp dataset=boston task=interpolation protocol=lindinger2020 budget=paper "
        "method.num_layers=1 seed=0 split=1"
    )
    assert rows.nth(1).get_by_role("link").get_attribute("href").endswith("/split1-seed0/record.json")
    page.set_viewport_size({"width": 1400, "height": 900})
    box, link = (
        part.bounding_box() for part in (page.locator(".scroll:has(#run-list)"), rows.nth(1).get_by_role("link"))
    )
    assert link["x"] + link["width"] <= box["x"] + box["width"]  # not cut off
    page.get_by_role("button", name="Show all runs").click()
    assert "of 29 entries" in page.locator(".dt-container:has(#run-list)").inner_text()


def test_failed_runs_are_found_with_their_reason(page):
    page.locator("#runs").click()
    page.locator(".dt-container:has(#run-list)").get_by_role("searchbox").fill("failed")
    rows = page.locator("#run-list tbody tr")
    expect(rows).to_have_count(1)
    assert "failed: a toy reason" in rows.inner_text()


def test_squares_are_methods_that_none_beats_in_both_score_and_seconds(page):
    titles = [each.text_content() for each in page.locator("#pareto rect title").all()]
    assert titles == ["sgp L1: 3.00, 10.0 s", "mf L3: 1.33, 50.0 s"]
    assert page.locator("#pareto circle").count() == 1
    box(page, "energy").uncheck()
    box(page, "concrete").uncheck()  # of one data set the scores are drawn
    titles = [each.text_content() for each in page.locator("#pareto rect title").all()]
    assert titles == ["sgp L1: -3.050, 10.0 s", "mf L3: -2.050, 50.0 s"]
    places = [float(each.get_attribute("y")) for each in page.locator("#pareto rect").all()]
    assert places[1] < places[0]  # better is higher


def test_a_published_table_opens_with_its_figures_and_sorts(page):
    section = page.locator("#lindinger2020_table1-paper")
    assert section.locator("svg").count() == 0
    section.locator("summary").click()
    expect(section.locator("svg").first).to_be_visible()
    heading = section.get_by_role("columnheader", name="sgp L1")
    heading.click()
    expect(heading).to_have_attribute("aria-sort", "ascending")


def test_a_hostile_name_is_shown_as_text(page):
    page.get_by_role("combobox", name="budget").select_option("laptop")
    assert EVIL in page.locator("#board thead").inner_text()
    page.locator("#runs").click()
    page.locator(".dt-container:has(#run-list)").get_by_role("searchbox").fill("gpr")
    assert EVIL in page.locator("#run-list tbody").inner_text()


def test_every_control_and_table_has_a_name(page):
    for role in ("combobox", "searchbox", "checkbox", "button"):
        for control in page.get_by_role(role).all():
            assert control.evaluate("each => each.labels?.length || each.textContent.trim() || each.ariaLabel")
    levels = [int(each[1]) for each in page.locator("h1, h2, h3").evaluate_all("all => all.map(each => each.tagName)")]
    assert levels[0] == 1
    assert all(b - a <= 1 for a, b in pairwise(levels))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_a_phone_and_has_contrast_in_both_colour_schemes(page, scheme):
    page.set_viewport_size({"width": 400, "height": 800})
    page.emulate_media(color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= 400

    def luminance(name: str) -> float:
        colour = page.evaluate(f"getComputedStyle(document.body)['{name}']")
        parts = np.array([int(each) for each in re.findall(r"\d+", colour)[:3]]) / 255
        return float(
            np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722]
        )

    text, back = luminance("color"), luminance("background-color")
    assert (text > back) == (scheme == "dark")
    assert (max(text, back) + 0.05) / (min(text, back) + 0.05) > 7
