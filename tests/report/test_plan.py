"""The matrix of an item: the same identities as a run has, and the state of each."""

from types import SimpleNamespace

import pytest
from toys import toy_record, write_toy

from dgpbench import config, records
from dgpbench.identity import config_hash
from dgpbench.plan import count, in_words, matrix, plan, seconds_left
from dgpbench.recording import recorded_config
from dgpbench.report.collect import collect
from dgpbench.report.items import load
from dgpbench.run import directory_of

SMALL = ("dataset=boston", "method=mf,sgp", "split=range(2)", "budget=smoke")


def planned(results, *given, item="lindinger2020_table1"):
    return plan(load(item, [*given, f"results_dir={results}"]))


def finish(run, status="done"):
    """A record as the run itself would have left it."""
    resolved = config.resolve(config.compose(run.overrides))
    choices = run.choices
    identity = {
        **{key: choices[key] for key in ("task", "dataset", "method", "protocol", "budget")},
        "num_layers": int(choices["method.num_layers"]),
        "split": int(choices["split"]),
        "seed": int(choices["seed"]),
        "overrides": {},
    }
    made = toy_record(identity, {"tll": -2.0}, status=status)
    made["config_hash"] = config_hash(recorded_config(resolved))
    records.write_run(run.directory, made)


@pytest.mark.parametrize(
    ("item", "given"),
    [
        ("lindinger2020_table1", ["dataset=naval", "split=3", "method=sgp,sghmc"]),
        ("lindinger2020_table1", ["dataset=boston", "split=0", "training.learning_rate=1e-1", "seed=3", "method=mf"]),
        ("lindinger2020_tables4", ["dataset=energy", "split=0", "budget=laptop", "method=mf,fc"]),
        ("lindinger2020_fig4", ["method.num_inducing=64,128", "method=star"]),
        ("lindinger2020_figs8", ["dataset=boston", "method=fc"]),
        ("hernandez2018_table511", ["dataset=protein", "split=19", "method.num_layers=2,5", "method=mf"]),
        ("hernandez2018_table531", ["method=aepmcm"]),
        ("hernandez2018_fig434", ["budget=smoke"]),
    ],
)
def test_a_planned_run_lies_where_the_run_itself_would_put_it(item, given):
    for run in plan(load(item, given)):
        resolved = config.resolve(config.compose(run.overrides))
        table = SimpleNamespace(name=resolved["dataset"]["name"])
        assert run.directory == directory_of(resolved, table)


def test_states_of_runs(results):
    runs = planned(results, *SMALL)
    assert count(runs) == {"done": 0, "failed": 0, "missing": 6, "conflict": 0}
    finish(runs[0])
    finish(runs[1], "diverged")
    finish(runs[2], "interrupted")
    (write_toy(results, method="mf", num_layers=3, budget="smoke", split=0) / "record.json").write_text("{")
    write_toy(results, method="mf", num_layers=3, budget="smoke", split=1)  # made with other settings
    again = planned(results, *SMALL)
    assert [run.state for run in again] == ["done", "failed", "missing", "missing", "missing", "conflict"]
    text = matrix(again)
    assert text.splitlines()[0].split("  ")[0] == "dataset"
    assert "1/2, 1 failed" in text
    assert "0/2, 1 conflict" in text


def test_a_record_of_another_budget_is_no_done_run(results):
    runs = planned(results, *SMALL)
    finish(runs[0])
    assert count(planned(results, *SMALL[:3], "budget=laptop"))["done"] == 0


def test_time_left_is_that_of_the_most_alike_runs(results):
    def write(seconds, **identity):
        write_toy(results, record={"seconds": {"training": 1.0, "total": seconds}}, budget="smoke", **identity)

    runs = planned(results, "dataset=boston,energy,naval", "method=mf", "split=0", "budget=smoke")
    assert seconds_left(runs, collect(results)) is None
    write(100.0, method="sgp", num_layers=1, dataset="energy", split=5)
    assert seconds_left(runs, collect(results)) == 600.0
    write(10.0, method="mf", num_layers=2, dataset="boston", split=5)
    write(30.0, method="mf", num_layers=3, dataset="boston", split=5)
    # boston 10 and 30 by depth; energy and naval the median of mf, 20, at both depths
    assert seconds_left(runs, collect(results)) == 10 + 30 + 4 * 20
    assert seconds_left([], collect(results)) == 0.0


def test_records_of_another_budget_say_nothing_about_time(results):
    write_toy(results, budget="paper", method="mf")
    runs = planned(results, *SMALL)
    assert seconds_left(runs, collect(results)) is None


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(None, "time unknown"), (90.0, "about 90 s"), (600.0, "about 10 min"), (12000.0, "about 3 h 20 min")],
)
def test_time_in_words(seconds, words):
    assert in_words(seconds).startswith(words)
