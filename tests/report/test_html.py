"""The HTML report: escaped, self-contained, and read back from a browser."""

import re

import numpy as np
import pytest
from pages import data_in, figures_in, runs_in, scores_in, tables_in
from scipy import stats
from toys import DATA, toy_points, toy_trace, write_toy

from dgpbench.cli import main
from dgpbench.errors import UserError
from dgpbench.experiments import items
from dgpbench.methods.plugins import load_file
from dgpbench.report.html import write_report

EVIL = "<script>alert('x')<i>&\"$a$"
CLIP_PATHS = re.compile(r"\bp[0-9a-f]{10}\b")  # their names, which matplotlib makes of memory addresses


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """The text of a report with complete, incomplete and failed runs, and a data set with a hostile name."""
    folder, rng = tmp_path_factory.mktemp("report"), np.random.default_rng(0)
    results = folder / "results"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda handle: None)
        for split in range(10):
            files = {"points": toy_points(-1.0, seed=split), "trace": toy_trace()}
            for method, L, score in (("sgp", 1, -2.7), ("mf", 2, -2.5), ("star", 2, -2.4)):
                if method != "star" or split < 7:
                    scores = {"tll": score + 0.1 * rng.normal(), "rmse": 3.0, "nlpp": -score}
                    write_toy(results, scores, method=method, num_layers=L, split=split, **files)
        write_toy(results, status="failed", method="star", num_layers=2, split=7)
        write_toy(results, {"tll": -1.0, "rmse": 0.5, "nlpp": 1.0}, dataset=EVIL, method="mf", num_layers=2)
    damaged = results / "runs" / "interpolation" / "broken" / "record.json"
    damaged.parent.mkdir()
    damaged.write_text("{")
    return write_report(results, folder / "report.html").read_text()


@pytest.mark.full
def test_incomplete_cells_have_a_count_and_complete_ones_an_error(report):
    heading, *rows = tables_in(report)["tll"]
    assert heading[:2] == ["method", "boston"]
    cells = {row[0]: row[1] for row in rows}
    assert cells["star L2"] == "7/10"
    assert re.fullmatch(r"-2\.\d\d \(0\.\d\d\)", cells["sgp L1"])


def test_every_name_is_escaped(report):
    assert "<script>alert" not in report
    assert any(run["dataset"] == EVIL for run in runs_in(report))


def test_figures_escape_names_too():
    from dgpbench.report.figures import training
    from dgpbench.report.figures.page import Panel, page
    from dgpbench.report.html import svg

    frame = toy_trace().assign(method=EVIL, num_layers=2, run="a")
    text = svg(page(EVIL, [Panel(EVIL, training.draw_elbo_against_seconds, frame)]), "f1-")
    assert "<script" not in text.lower()
    assert text.count("&lt;script&gt;") == 3  # the page's title, the panel's, and the legend


def test_the_page_needs_nothing_from_elsewhere(report):
    assert not re.search(r'(?:src|href)="(?:https?:)?//', report)
    assert not re.search(r"@import|url\((?!#)", report)
    assert "default-src 'none'" in report


def test_ids_are_unique_and_links_lead_somewhere(report):
    ids = re.findall(r'\sid="([^"]+)"', report)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'<a href="#([^"]+)"', report)) <= set(ids)


def test_each_number_leads_to_its_records(report):
    groups = re.search(r'data-groups="(g\d+)">-2\.\d\d \(0\.\d\d\)', report).group(1)
    rows = [run for run in runs_in(report) if run["group"] == groups]
    assert len(rows) == 10
    assert all(run["record"].startswith("runs/interpolation/boston/") for run in rows)
    assert data_in(report)["records"][1] == "results"  # links start at the page's folder


def test_failures_and_damaged_records_are_listed_with_their_reasons(report):
    (run,) = [run for run in runs_in(report) if run["status"] == "failed"]
    assert run["reason"] == "a toy reason"
    assert "broken/record.json is truncated or damaged" in report


def test_comparison_shows_the_published_value(report):
    rows = tables_in(report)["Ours and published"]
    assert any(row[:3] == ["boston", "sgp L1", "tll"] and row[4] == "-2.58 (0.10)" for row in rows)


def test_statistics_of_incomplete_tables_name_what_is_left_out(report):
    assert re.search(r"Left out, since ranks and tests need complete cells: [^<]*STAR L2 \(7/10 on boston\)", report)


def test_a_complete_table_has_statistics(toy, results, tmp_path):
    for sweep in items.load("hernandez2018_table521").sweeps:
        for k, one in enumerate(sweep.combinations(("method", "method.num_layers", "dataset", "split"))):
            who = {"method": one["method"], "num_layers": int(one["method.num_layers"]), "dataset": one["dataset"]}
            toy({"tll": -k / 10, "rmse": k / 10}, split=int(one["split"]), protocol="hernandez2018", **who)
    found = tables_in(write_report(results, tmp_path / "report.html").read_text())
    assert found["Mean ranks, tll (1 is best)"][1] == ["MF L3", "1.00"]
    assert found["Probability of improvement, rmse"][1][2:] == ["1.00", "", ""]  # one split bounds nothing


@pytest.mark.full
def test_marks_that_depend_on_another_task_are_on_the_page(toy, results, tmp_path):
    """Table S3 prints in bold what is as good as sgp in interpolation as well."""
    for task in ("extrapolation", "interpolation"):
        for method, num_layers in (("sgp", 1), ("star", 3)):
            for split in range(10):
                toy({"tll": -2.5 + split / 100}, task=task, method=method, num_layers=num_layers, split=split)
    page = write_report(results, tmp_path / "report.html").read_text()
    section = page[page.index('<section id="lindinger2020_tables3') :]
    section = section[: section.index("</section>")]
    assert re.search(r'class="number bold[^"]*"[^>]*>(<[^>]*>)*-2\.4[56]', section)


@pytest.mark.full
def test_the_page_names_another_budget_with_more_runs(toy, results, tmp_path):
    toy({"tll": -2.5}, method="sgp", num_layers=1, split=0)
    for split in range(3):
        toy({"tll": -2.5}, method="sgp", num_layers=1, split=split, budget="laptop")
    text = write_report(results, tmp_path / "report.html").read_text()
    assert "More of its runs are done at other budgets: 3 at budget=laptop." in text


@pytest.mark.full
def test_processes_that_share_the_sections_write_the_same_page(toy, results, tmp_path, monkeypatch):
    """With a plug-in that joins an item, the workers load it too; also if no socket can be opened."""
    guest = tmp_path / "in_sections.py"
    guest.write_text("from dgpbench.plugins import Method\nMETHOD = Method('in_sections', lambda *given: None)\n")
    load_file(guest)
    for method, num_layers in (("sgp", 1), ("mf", 3), ("star", 3)):
        toy({"tll": -2.5, "rmse": 3.0, "nlpp": 2.5}, method=method, num_layers=num_layers, trace=toy_trace())

    def written(name: str, workers: int = 1) -> tuple[str, list[str]]:
        page = write_report(results, tmp_path / name, workers=workers).read_text()
        figures = [CLIP_PATHS.sub("", figure) for figure in figures_in(page)]
        return re.sub(r'class="packed">.*?<', "", page), figures

    alone = written("alone.html")
    monkeypatch.setattr("dgpbench.report.html.MANY", 2)
    same = written("shared.html", workers=2) == alone  # pytest would take hours to explain how two such texts differ
    assert len(alone[1]) > 2
    assert same

    def too_long() -> None:
        raise OSError("AF_UNIX path too long")

    monkeypatch.setattr("multiprocessing.forkserver.ensure_running", too_long)
    same = written("spawned.html", workers=2) == alone
    assert same


def test_an_empty_folder_is_refused(results, capsys):
    results.mkdir()
    with pytest.raises(UserError, match="holds no records"):
        write_report(results, results / "report.html")
    for folder in (str(results), f"results_dir={results}"):  # the second as other commands take it
        assert main(["report", folder]) == 2
        assert (
            capsys.readouterr().err
            == f"dgpbench: {results} holds no records; `dgpbench run` or `dgpbench reproduce` makes them\n"
        )


def test_methods_on_a_users_own_table_are_ranked_and_tested(toy, results, tmp_path):
    """Paired differences 0.1, 0.2, 0.3, 0.6 over four splits; one method lacks a split."""
    for split, difference in enumerate((0.1, 0.2, 0.3, 0.6)):
        scores = {"star": -2.0 + split, "mf": -2.0 + split - difference, "gpr": -3.0 - split}
        for method, tll in scores.items():
            if (method, split) != ("gpr", 3):
                toy({"tll": tll, "nlpp": -tll}, dataset="houses-74b5fd96", method=method, num_layers=3, split=split)
    page = write_report(results, tmp_path / "own.html").read_text()
    seen = tables_in(page)
    (caption,) = [each for each in seen if each.startswith("houses-74b5fd96, ranked")]
    _, first, second = seen[caption]
    assert (first[:2], second[:2]) == (["1", "star L3"], ["2", "mf L3"])
    share = DATA["n_test"] / DATA["n_train"]
    t = 0.3 / np.sqrt((1 / 4 + share) * np.var([0.1, 0.2, 0.3, 0.6], ddof=1))
    assert [float(cell) for cell in second[3:5]] == pytest.approx([-0.3, 2 * stats.t.sf(t, 3)], abs=5e-4)
    assert "Left out, without a log-likelihood on each of them: gpr L3." in page


def test_a_method_with_more_splits_or_seeds_does_not_change_the_ranks_of_ones_own_table(toy, results, tmp_path):
    who = {"dataset": "houses-74b5fd96", "num_layers": 3}
    for split in range(3):
        for method, tll in (("star", -2.0), ("mf", -2.5), ("sgp", -3.0)):
            toy({"tll": tll - split}, method=method, split=split, **who)
        toy({"tll": 5.0}, method="mf", split=split, seed=1, **who)
    toy({"tll": -9.0}, method="star", split=3, **who)
    seen = tables_in(write_report(results, tmp_path / "own.html").read_text())
    (caption,) = [each for each in seen if each.startswith("houses-74b5fd96, ranked")]
    assert [row[1:3] for row in seen[caption][1:]] == [
        ["mf L3 seed=1", "5.000"],
        ["star L3", "-3.000"],
        ["mf L3", "-3.500"],
        ["sgp L3", "-4.000"],
    ]


def test_a_table_of_ones_own_without_log_likelihoods_is_reported(toy, results, tmp_path):
    for split in range(2):
        toy({"crps": 1.0}, dataset="houses-74b5fd96", method="gradient_boosting_quantiles", num_layers=1, split=split)
    page = write_report(results, tmp_path / "own.html").read_text()
    assert scores_in(page, "crps")["gradient_boosting_quantiles L1", "houses-74b5fd96"] == "1.000 (0.000)"
    assert not any("ranked" in caption for caption in tables_in(page))
