"""``reproduce`` runs missing runs only; its command lines."""

import pytest
import toys
from test_plan import SMALL, finish, planned
from toys import write_toy

from dgpbench.cli import main
from dgpbench.experiments import engine
from dgpbench.runs.outcomes import Outcome
from dgpbench.runs.resolve import resolve_overrides

TABLE1 = "lindinger2020_table1"


class Engine:
    """Replacement of the engine that stores the runs and ends them with one status."""

    def __init__(self, monkeypatch, status: str = "done"):
        self.status = status
        monkeypatch.setattr(engine, "engine", self)

    def __call__(self, runs, workers, report):
        self.runs = list(runs)
        return [Outcome(self.status, None, "") for _ in runs]

    def reproduce(self, results, *flags):
        """Return the exit code and the runs that were to be executed."""
        return call("reproduce", TABLE1, *SMALL, f"results_dir={results}", *flags), self.runs


def call(*arguments: str) -> int:
    return main([str(argument) for argument in arguments])


def test_only_what_is_missing_is_run(results, monkeypatch):
    runs = planned(results, *SMALL)
    for run in runs[:4]:
        finish(run)
    code, ran = Engine(monkeypatch).reproduce(results)
    assert [run.directory for run in ran] == [each.directory for each in runs[4:]]
    assert not any(run.limits.plot for run in ran)
    assert code == 0


def test_a_failed_run_stays_failed_until_it_is_requested(results, monkeypatch, capsys):
    runs = planned(results, *SMALL)
    for run in runs[:5]:
        finish(run)
    finish(runs[5], "diverged")
    fake = Engine(monkeypatch)
    assert fake.reproduce(results) == (1, [])
    assert "1 earlier run failed and not run again" in capsys.readouterr().err
    code, ran = fake.reproduce(results, "--retry-failed")
    assert len(ran) == 1
    assert code == 0


@pytest.mark.parametrize(("status", "code"), [("done", 0), ("failed", 1), ("timeout", 1), ("refused", 2)])
def test_exit_codes(results, status, code, monkeypatch):
    assert Engine(monkeypatch, status).reproduce(results)[0] == code


def test_the_engine_turns_a_refusal_into_an_outcome():
    (outcome,) = engine.engine([resolve_overrides(["task=classic", "split=20"])], workers=1)
    assert outcome.status == "refused"
    assert "split must be between 0 and 19" in outcome.message


@pytest.mark.full
def test_a_killed_worker_costs_one_run(monkeypatch):
    monkeypatch.setattr(engine, "_in_worker", toys.kill_or_finish)  # spawned workers see no other patch
    told = []
    runs = [resolve_overrides([f"split={split}"]) for split in range(4)]
    outcomes = engine.engine(runs, 2, lambda number, run, outcome: told.append((run.split, outcome.status)))
    assert dict(told) == {0: "failed", 1: "failed", 2: "done", 3: "done"}
    messages = " ".join(outcome.message for outcome in outcomes)
    assert "killed" in messages
    assert "a toy error" in messages


# Command lines --------------------------------------------------------------------------------------------------------


@pytest.fixture
def stored(results):
    for method, layers in (("sgp", 1), ("mf", 2), ("mf", 3)):
        for split in range(2):
            write_toy(
                results, {"tll": -2.5 + 0.1 * split}, method=method, num_layers=layers, split=split, budget="smoke"
            )
    return f"results_dir={results}"


def test_overrides_stand_before_and_after_options(stored, capsys):
    assert call("table", TABLE1, *SMALL, "--format", "csv", stored) == 0
    before = capsys.readouterr().out
    assert call("table", TABLE1, "--format=csv", stored, *SMALL) == 0
    assert capsys.readouterr().out == before
    assert before.count("\n") == 4


def test_unknown_options_are_refused(capsys):
    assert call("table", TABLE1, "--wrong") == 2
    assert call("cite", "star", "a=b") == 2
    assert call("plan", TABLE1, "dataset=nonsense") == 2
    assert call("reproduce", TABLE1, "--workers", "0") == 2
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 4
    assert all(line.startswith("dgpbench: ") for line in errors)


def test_reproduce_renders_the_available_records(stored, results, capsys):
    for run in planned(results, *SMALL):
        finish(run)
    assert call("reproduce", TABLE1, *SMALL, stored) == 0
    output = capsys.readouterr().out
    assert " boston |" in output
    assert "judged cells" in output


def test_plan_prints_the_matrix(stored, capsys):
    assert call("plan", TABLE1, *SMALL, stored) == 0
    assert "sgp L1" in capsys.readouterr().out


@pytest.mark.full
def test_all_tables_that_have_records_are_written(stored, tmp_path, capsys):
    assert call("table", "all", "budget=smoke", stored, "--output", tmp_path / "tables") == 0
    written = sorted(path.name for path in (tmp_path / "tables").iterdir())
    assert written == [
        f"{name}-smoke.md" for name in ("dgpbench_frontier", "dgpbench_structures", "dgpbench_uci", TABLE1)
    ]  # they share runs
    assert "lindinger2020_tables3: no records of budget smoke" in capsys.readouterr().out


def reference(stored, tmp_path):
    path = tmp_path / "reference.csv"
    assert call("table", TABLE1, *SMALL, stored, "--format", "csv", "--output", path) == 0
    return path


def test_check_passes_where_nothing_moved(stored, tmp_path):
    path = reference(stored, tmp_path)
    assert call("check", TABLE1, *SMALL, stored, "--tolerance", "1e-9", "--reference", path) == 0


@pytest.mark.parametrize(("moved", "code"), [(0.05, 0), (-0.5, 1), (0.5, 1)])
def test_check_fails_where_a_number_moved(results, stored, tmp_path, moved, code):
    path = reference(stored, tmp_path)
    write_toy(results, {"tll": -2.5 + moved}, method="mf", num_layers=2, split=0, budget="smoke")
    assert call("check", TABLE1, *SMALL, stored, "--tolerance", "0.1", "--reference", path) == code


def test_check_fails_where_a_split_is_missing(results, stored, tmp_path):
    path = reference(stored, tmp_path)
    write_toy(results, status="failed", method="mf", num_layers=2, split=0, budget="smoke")
    assert call("check", TABLE1, *SMALL, stored, "--tolerance", "9", "--reference", path) == 1


def test_check_refuses_a_file_that_is_not_a_reference(stored, tmp_path, capsys):
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    header = "metric,dataset,method,num_layers,mean,count\n"
    for name, row in (("mean.csv", "tll,boston,mf,2,good,2"), ("layers.csv", "tll,boston,mf,two,-2.5,2")):
        (tmp_path / name).write_text(f"{header}{row}\n")
    (tmp_path / "count.csv").write_text(f"{header}tll,boston,mf,2,-2.5,\n")
    for name in ("absent.csv", "empty.csv", "other.csv", "mean.csv", "layers.csv", "count.csv"):
        assert call("check", TABLE1, *SMALL, stored, "--tolerance", "1", "--reference", tmp_path / name) == 2
    path = reference(stored, tmp_path)
    assert call("check", TABLE1, stored, "--tolerance", "1", "--reference", path) == 2  # of budget smoke
    assert call("check", TABLE1, *SMALL, stored, "--tolerance", "nan", "--reference", path) == 2
    figure = ["jain2021_fig11", "budget=smoke"]
    assert call("check", *figure, stored, "--tolerance", "1", "--reference", path) == 2


def test_cite_prints_methods_and_data_sets(capsys):
    assert call("cite", "star") == 0
    assert "Lindinger" in capsys.readouterr().out
    assert call("cite", "boston") == 0
    assert "Licence: " in capsys.readouterr().out
    assert call("cite", "stat") == 2
    assert "did you mean star?" in capsys.readouterr().err


def test_verify_moves_damaged_runs_away(results, stored, capsys):
    assert call("results", "verify", results) == 0
    (damaged,) = [path for path in results.rglob("record.json") if "sgp-L1" in str(path) and "split0" in str(path)]
    damaged.write_text("{")
    assert call("results", "verify", results) == 1
    assert call("results", "verify", results, "--quarantine") == 1
    assert "truncated or damaged" in capsys.readouterr().out
    assert len(list((results / "quarantine").rglob("record.json"))) == 1
    assert call("results", "verify", results) == 0
    assert call("results", "verify", results / "absent") == 2
