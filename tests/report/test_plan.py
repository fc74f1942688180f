"""The matrix of an item: the same identities as a run has, and the state of each."""

import json
from dataclasses import asdict

import pytest
from one_record import forge
from toys import toy_record, write_toy

from dgpbench.benchmarks import cost
from dgpbench.cli import main
from dgpbench.commands.validate import declared_sizes
from dgpbench.experiments.items import load
from dgpbench.experiments.plan import count, matrix, plan_of
from dgpbench.report.collect import collect
from dgpbench.runs import store
from dgpbench.runs.resolve import resolve_overrides

SMALL = ("dataset=boston", "method=mf,sgp", "split=range(2)", "budget=smoke")


def planned(results, *given, item="lindinger2020_table1"):
    return plan_of(load(item, [*given, f"results_dir={results}"]))


def finish(planned, status="done"):
    """A record as the run itself would have left it."""
    made = toy_record(asdict(planned.run.identity), {"tll": -2.0}, status=status)
    made["config_hash"] = planned.run.config_hash
    store.write_run(planned.directory, made)


@pytest.mark.parametrize(
    ("item", "given"),
    [
        ("lindinger2020_table1", ["dataset=naval", "split=3", "method=sgp,sghmc"]),
        ("lindinger2020_table1", ["dataset=boston", "split=0", "training.learning_rate=1e-1", "seed=3", "method=mf"]),
        ("lindinger2020_tables4", ["dataset=energy", "split=0", "budget=laptop", "method=mf,fc"]),
        ("lindinger2020_tables5", ["dataset=energy", "split=3", "budget=laptop", "seed=1"]),
        ("lindinger2020_fig4", ["method.num_inducing=64,128", "method=star"]),
        ("lindinger2020_figs8", ["dataset=boston", "method=fc"]),
        ("hernandez2018_table511", ["dataset=protein", "split=19", "method.num_layers=2,5", "method=mf"]),
        ("hernandez2018_table531", ["method=aepmcm"]),
        ("hernandez2018_fig434", ["budget=smoke"]),
    ],
)
def test_a_planned_run_lies_where_the_run_itself_would_put_it(item, given):
    for each in plan_of(load(item, given)):
        itself = resolve_overrides(each.overrides)
        assert (itself.directory, itself.config_hash) == (each.directory, each.run.config_hash)


def test_states_of_runs(results):
    runs = planned(results, *SMALL)
    assert count(runs) == {"done": 0, "failed": 0, "missing": 6, "conflict": 0, "blocked": 0}
    finish(runs[0])
    finish(runs[1], "diverged")
    finish(runs[2], "interrupted")
    (write_toy(results, method="mf", num_layers=3, budget="smoke", split=0) / "record.json").write_text("{")
    write_toy(results, method="mf", num_layers=3, budget="smoke", split=1)  # made with other settings
    again = planned(results, *SMALL)
    assert [run.state for run in again] == ["done", "failed", "missing", "missing", "missing", "conflict"]
    text = matrix(again)
    assert text.splitlines()[0].split() == ["method", "boston"]
    assert text.splitlines()[2].split("  ")[0] == "sgp L1"
    assert "1/2, 1 failed" in text
    assert "0/2, 1 conflict" in text


def test_a_record_of_another_budget_is_not_a_finished_run(results):
    runs = planned(results, *SMALL)
    finish(runs[0])
    assert count(planned(results, *SMALL[:3], "budget=laptop"))["done"] == 0


def seconds_each(runs, results):
    """The expected seconds of each run by records; None without a similar run."""
    first, estimates = runs[0].run, []
    records = cost.Records(collect(results), first.budget, first.protocol, first.limits.device)
    for each in runs:
        rows, features, _ = declared_sizes(each.run)
        estimates.append(records.like(each.run) or records.scaled(each.run, rows, features))
    return [None if estimate is None else estimate.seconds for estimate in estimates]


def write_seconds(results, seconds, gpu=None, **identity):
    directory = write_toy(results, record={"seconds": {"training": 1.0, "total": seconds}}, budget="smoke", **identity)

    def change(record):
        record["data"]["n_train"] = 691
        record["host"]["gpu"] = gpu

    forge(directory / "record.json", change)


def test_times_on_a_gpu_say_nothing_of_a_processor(results):
    write_seconds(results, 10.0, method="sgp", num_layers=1, dataset="energy", split=5)
    write_seconds(results, 1.0, "a card", method="sgp", num_layers=1, dataset="energy", split=6)
    for device, seconds in (("cpu", 10.0), ("gpu", 1.0)):
        runs = planned(results, "dataset=energy", "method=sgp", "split=0", "budget=smoke", f"device={device}")
        assert seconds_each(runs, results) == [seconds]
        assert cost.seconds_of_similar_runs(runs[0].run) == [seconds]


def test_time_left_comes_from_runs_on_the_same_data_or_is_scaled(results):
    runs = planned(results, "dataset=boston,energy,naval", "method=mf", "split=0", "budget=smoke")
    assert seconds_each(runs, results) == [None] * 6
    write_seconds(results, 100.0, method="sgp", num_layers=1, dataset="energy", split=5)
    assert seconds_each(runs, results) == [None] * 6  # a sparse GP's time is not used for a deep one
    write_seconds(results, 10.0, method="mf", num_layers=2, dataset="energy", split=5)
    cells = [(run.run.dataset_name, run.run.method.num_layers) for run in runs]
    each = dict(zip(cells, seconds_each(runs, results), strict=True))
    assert each["energy", 2] == 10.0

    # The counted products of a step with B rows, R = 2 paths and tau = 2 GPs: 4 M^2 (B + (L - 1) R B) for features,
    # 4 M^2 (2 B + 2 (L - 2) R B + R B) for forms, (2 (L - 1) + 1) M^3 for covariances.
    def products(rows, L, M=16):
        return 4 * M**2 * rows * (1 + (L - 1) * 2 + 2 + 2 * (L - 2) * 2 + 2) + (2 * (L - 1) + 1) * M**3

    assert each["energy", 3] == pytest.approx(10.0 * products(512, 3) / products(512, 2))
    assert each["boston", 3] == pytest.approx(10.0 * products(455, 3) / products(512, 2))
    assert each["naval", 2] == pytest.approx(10.0)  # as many iterations of as many rows


def test_time_left_does_not_come_from_runs_with_other_settings(results):
    """A model of sixteen times the inducing points takes longer."""
    changed = {"method.num_inducing": 256}
    write_seconds(results, 1000.0, method="mf", num_layers=2, dataset="energy", split=5, overrides=changed)
    given = ("dataset=energy", "method=mf", "method.num_layers=2", "split=0", "budget=smoke")
    assert seconds_each(planned(results, *given), results) == [None]
    assert seconds_each(planned(results, *given, "method.num_inducing=256"), results) == [1000.0]


def test_time_left_of_methods_without_counted_products_is_scaled_by_rows(results):
    runs = planned(results, "dataset=naval", "method=sgpr", "split=0", "budget=smoke", item="dgpbench_uci")
    write_seconds(results, 10.0, method="sgpr", num_layers=1, dataset="energy", split=5)
    assert seconds_each(runs, results) == [pytest.approx(10.0 * 10741 / 691)]


def test_steps_of_another_size_are_not_used_for_time(results):
    """Small steps take longer than their products, by a factor that depends on their size."""
    runs = planned(results, "dataset=naval", "method=mf", "method.num_layers=3", "split=0", "budget=smoke")
    write_seconds(results, 10.0, method="mf", num_layers=2, dataset="energy", overrides={"training.batch_size": 16})
    assert seconds_each(runs, results) == [None]


def test_records_of_another_budget_are_not_used_for_time(results):
    write_toy(results, budget="paper", method="mf")
    runs = planned(results, *SMALL)
    assert seconds_each(runs, results) == [None] * len(runs)


def test_a_plan_gives_a_range_where_times_are_scaled(results, capsys):
    for dataset, seconds in (("energy", 100.0), ("kin8nm", 400.0)):
        write_seconds(results, seconds, method="mf", num_layers=2, dataset=dataset, split=5)
    given = ("dataset=naval", "method=mf", "method.num_layers=2", "split=0,1", "budget=smoke", f"results_dir={results}")
    assert main(["plan", "lindinger2020_table1", *given]) == 0
    assert "left with one worker: about 8 min (between 2 min and 20 min)\n" in capsys.readouterr().out
    assert main(["plan", "lindinger2020_table1", *given, "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert (made["seconds_left"], made["seconds_left_at_least"]) == (pytest.approx(500.0), None)
    assert made["seconds_left_between"] == pytest.approx([2 * 100 / 1.5, 2 * 400 * 1.5])


@pytest.mark.parametrize(
    ("seconds", "words"), [(45.0, "about 90 s"), (300.0, "about 10 min"), (6000.0, "about 3 h 20 min")]
)
def test_the_time_left_is_by_runs_that_are_done(results, capsys, seconds, words):
    write_toy(results, budget="smoke", split=9, record={"seconds": {"training": 1.0, "total": seconds}})
    given = ("dataset=boston", "method=star", "method.num_layers=3", "split=0,1", "budget=smoke")
    assert main(["plan", "lindinger2020_table1", *given, f"results_dir={results}"]) == 0
    assert f"left with one worker: {words}\n" in capsys.readouterr().out


def test_methods_without_a_run_are_estimated_by_their_products(results, capsys, monkeypatch):
    monkeypatch.setattr("dgpbench.benchmarks.cost.least_seconds", lambda *given: 120.0)
    write_toy(results, budget="smoke", split=9, record={"seconds": {"training": 1.0, "total": 300.0}})
    given = ("dataset=boston", "method=mf,star", "method.num_layers=3", "split=0,1", "budget=smoke")
    assert main(["plan", "lindinger2020_table1", *given, f"results_dir={results}"]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("left with")]
    assert "about 10 min for 2 runs with similar finished runs; between 2 min and 25 min, by matrix products" in line
    assert line.endswith("for 2 runs without")
    assert main(["plan", "lindinger2020_table1", *given, f"results_dir={results}", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["seconds_left"] is None
    assert made["seconds_left_at_least"] == 600.0 + 0.5 * 240.0
    assert made["seconds_left_between"] == [600.0 + 0.5 * 240.0, 600.0 + 6.0 * 240.0 + 2 * 20.0]  # each run starts
    monkeypatch.setattr("dgpbench.benchmarks.cost.least_seconds", lambda *given: None)  # as of a method that converges
    assert main(["plan", "lindinger2020_table1", *given, f"results_dir={results}", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["seconds_left_at_least"] == 600.0


def test_without_a_record_the_time_is_what_the_products_take(results, capsys):
    """Twice as many runs take twice the time; methods that end at convergence are not counted."""
    given = ("lindinger2020_table1", "dataset=boston", "method=mf", "method.num_layers=2", f"results_dir={results}")
    hours = []
    for splits in ("0,1", "range(10)"):
        assert main(["plan", *given, f"split={splits}"]) == 0
        (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("left with")]
        assert ", by matrix products" in line
        hours.append(minutes(line.partition("between ")[2].partition(" and ")[0]))
    assert 2 < hours[1] / hours[0] < 12  # rates are measured each time
    assert main(["plan", "dgpbench_uci", "dataset=boston", "method=sgpr", "split=0", f"results_dir={results}"]) == 0
    assert "1 run without a time estimate" in capsys.readouterr().out


def minutes(words: str) -> float:
    """'1 h 20 min' or '90 s' in minutes."""
    units = {"h": 60.0, "min": 1.0, "s": 1 / 60}
    parts = words.replace(",", "").split()
    return sum(float(number) * units[unit] for number, unit in zip(parts[::2], parts[1::2], strict=True))
