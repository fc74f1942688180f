"""A series that starts from another's runs: which run from which, in which order, under which identity."""

import json
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import fit_once
import pytest
from one_record import forge

from dgpbench.errors import Diverged, UserError
from dgpbench.experiments import engine, items, plan, slurm
from dgpbench.runs.resolve import resolve_overrides

sys.path.insert(0, str(Path(__file__).parent))
import worker

ITEM = "lindinger2020_tables5"
SMALL = ("dataset=boston", "split=range(3)", "budget=smoke")
NAME = "runs/interpolation/boston/mf-L3/lindinger2020-paper/split0-seed0+optimiser=natgrad_adam"


def planned(capsys, results, *given):
    capsys.readouterr()
    assert fit_once.command("plan", ITEM, *SMALL, f"results_dir={results}", *given, "--json") == 0
    return json.loads(capsys.readouterr().out)


def runs_of(results, *given):
    return [each.run for each in plan.plan_of(items.load(ITEM, [*SMALL, f"results_dir={results}", *given]))]


def key(run):
    return run.card.name, run.split


# The plan -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [(), ("method=fc",), ("precision=mixed", "seed=3", "method.num_inducing=8")])
def test_each_run_starts_from_the_other_series_run_of_its_own_split(given, tmp_path):
    runs = runs_of(tmp_path, *given)
    by_directory = {run.directory: run for run in runs}
    assert sorted(map(key, runs)) == [(method, split) for method in ("fc", "mf") for split in range(3)]
    for run in runs:
        if run.card.name == "mf":
            assert run.init_from is None
            continue
        start = by_directory[run.start]
        assert key(start) == ("mf", run.split)
        assert (start.seed, start.precision, start.method.num_inducing) == (
            run.seed,
            run.precision,
            run.method.num_inducing,
        )
        assert runs.index(start) < runs.index(run)


@pytest.mark.parametrize(("budget", "steps"), [("paper", 7000), ("laptop", 700), ("smoke", 50)])
def test_a_budget_shortens_what_a_series_adds_to_the_schedule(budget, steps, tmp_path):
    runs = runs_of(tmp_path, f"budget={budget}")
    usual = resolve_overrides([f"budget={budget}"]).training.max_iterations
    assert {key(run)[0]: run.training.max_iterations for run in runs} == {"mf": usual, "fc": steps}


def test_the_steps_of_a_series_can_be_replaced(tmp_path):
    assert {run.training.max_iterations for run in runs_of(tmp_path, "training.max_iterations=9")} == {9}


def test_a_series_that_starts_from_none_before_it_is_refused():
    entry = {"method": "fc", "split": 0, "starts_from": "mf_ng"}
    with pytest.raises(UserError, match="starts from mf_ng; the sweeps before it are: none"):
        items.sweeps_of("an_item", [entry])


def test_a_start_that_is_several_runs_is_refused():
    swept = items.load(ITEM, SMALL)
    start = replace(swept.sweeps[0], values={**swept.sweeps[0].values, "training.batch_size": ("10", "20")})
    several = replace(swept, sweeps=(replace(swept.sweeps[1], start=start),))
    with pytest.raises(UserError, match="several runs of mf_ng"):
        plan.plan_of(several)


# Identity -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["", "results/", "/home/another/user/results/", "../elsewhere/"])
def test_the_identity_names_the_start_without_a_machines_path(place):
    given = ("method=fc", "optimiser=natgrad_adam")
    run = resolve_overrides([*given, f'init_from="{place}{NAME}"'])
    assert run.config["init_from"] == NAME
    assert run.identity.overrides["init_from"] == NAME
    usual = resolve_overrides([*given, f'init_from="{NAME}"', "results_dir=/another/folder"])
    assert (run.config_hash, run.identity) == (usual.config_hash, usual.identity)
    assert resolve_overrides(run.identity.arguments()).identity == run.identity


def test_runs_from_different_starts_are_different_runs():
    other = NAME.replace("split0", "split1")
    found = [resolve_overrides(["method=fc", f'init_from="{name}"']) for name in (NAME, other)]
    assert len({run.config_hash for run in found}) == len({run.directory for run in found}) == 2


def test_a_plan_has_the_same_identities_wherever_its_results_are(tmp_path):
    one, two = (runs_of(tmp_path / name) for name in ("one", "two"))
    assert [run.config_hash for run in one] == [run.config_hash for run in two]
    assert [run.identity for run in one] == [run.identity for run in two]


# Carrying out ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def failing(monkeypatch):
    """Runs without training; mf on split 0 diverges as long as the list contains it."""
    fit_once.without_training(monkeypatch)
    from dgpbench.runs import execute

    made_up, bad = execute.fit_and_score, [("mf", 0)]

    def fit_and_score(run, problem, log):
        if key(run) in bad:
            raise Diverged("a made-up divergence")
        return made_up(run, problem, log)

    monkeypatch.setattr("dgpbench.runs.execute.fit_and_score", fit_and_score)
    return bad


@pytest.mark.full
def test_a_run_that_starts_from_a_failed_run_is_skipped_with_the_reason(failing, tmp_path, capsys):
    given = (ITEM, *SMALL, f"results_dir={tmp_path}", "progress=false")
    assert fit_once.command("reproduce", *given) == 1
    messages = capsys.readouterr().err
    assert "6 runs: 4 done, 1 diverged, 1 blocked" in messages
    (start,) = (tmp_path / "runs/interpolation/boston/mf-L3").glob("*/split0*")
    assert f"was not run: the run it starts from, {start}, ended as diverged" in messages
    found = planned(capsys, tmp_path)
    assert found["counts"] == {"done": 4, "failed": 1, "missing": 0, "conflict": 0, "blocked": 1}
    (blocked,) = [run for run in found["runs"] if run["state"] == "blocked"]
    assert blocked["why"] == f"{blocked['directory']} starts from {start}, which failed"
    assert not Path(blocked["directory"]).exists()

    assert fit_once.command("reproduce", *given) == 1  # nothing is done twice, and it is named again
    assert f"not run: {blocked['why']}" in capsys.readouterr().err
    assert fit_once.command("plan", *given[:-1]) == 0
    assert f"blocked: {blocked['why']}" in capsys.readouterr().out
    failing.clear()
    assert fit_once.command("reproduce", *given, "--retry-failed") == 0
    assert planned(capsys, tmp_path)["counts"]["done"] == 6


def test_what_starts_from_a_record_made_with_other_settings_is_not_run(failing, tmp_path, capsys):
    failing.clear()
    given = (ITEM, "dataset=boston", "split=0", "budget=smoke", f"results_dir={tmp_path}", "progress=false")
    assert fit_once.command("reproduce", *given, "method=mf") == 0
    (path,) = tmp_path.rglob("record.json")
    forge(path, lambda record: record.update(config_hash="other"))
    capsys.readouterr()
    assert fit_once.command("reproduce", *given) == 2
    assert "which has a record of other settings or code" in capsys.readouterr().err
    assert list(tmp_path.rglob("record.json")) == [path]


def test_workers_begin_a_run_only_after_its_start_has_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(engine, "_in_worker", worker.after_its_start)
    runs = runs_of(tmp_path)
    told = []
    engine.engine(runs[::-1], 2, lambda number, run, outcome: told.append((*key(run), outcome.status)))
    assert sorted(told) == [
        *(("fc", split, "done" if split else "blocked") for split in range(3)),
        *(("mf", split, "done" if split else "failed") for split in range(3)),
    ]


def test_one_process_runs_the_start_first_in_any_order_of_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(engine, "one_run", worker.after_its_start)
    runs = runs_of(tmp_path)
    told = []
    engine.engine(runs[::-1], 1, lambda number, run, outcome: told.append((*key(run), outcome.status)))
    assert told[-2:] == [("mf", 0, "failed"), ("fc", 0, "blocked")]
    assert {status for _, split, status in told if split} == {"done"}


# On a cluster ---------------------------------------------------------------------------------------------------------


class Job:
    def __init__(self, number):
        self.job_id = f"7_{number}"


@pytest.fixture
def arrays(monkeypatch):
    """The chunks that are submitted, to no cluster."""
    submitted = []

    def in_one_array(executor, chunks):
        submitted.extend(chunks)
        return [Job(number) for number, _ in enumerate(chunks)]

    monkeypatch.setattr(slurm, "executor_of", lambda launcher, folder: folder.mkdir(parents=True, exist_ok=True))
    monkeypatch.setattr(slurm, "submit_array", in_one_array)
    return submitted


@pytest.mark.parametrize(("per_task", "tasks"), [(1, 3), (2, 2)])
def test_an_array_task_has_a_run_and_its_start_in_this_order(per_task, tasks, arrays, tmp_path, monkeypatch):
    launcher = replace(slurm.read_launcher(), runs_per_task=per_task)
    slurm.submit_missing(runs_of(tmp_path), launcher, str(tmp_path), lambda text: None, waiting=False)
    assert len(arrays) == tasks
    for chunk in arrays:
        names = [key(run) for run in chunk.runs]
        assert names == [(method, split) for split in sorted({split for _, split in names}) for method in ("mf", "fc")]
    monkeypatch.setattr(engine, "one_run", worker.after_its_start)
    monkeypatch.setattr(slurm.interrupts, "handled", nullcontext)
    assert arrays[0]()[:2] == ["failed", "blocked"]


def test_a_run_is_not_submitted_while_its_start_is_queued(arrays, tmp_path, monkeypatch):
    runs, messages = runs_of(tmp_path), []
    queued = {str(run.directory): "3_0" for run in runs if key(run) == ("mf", 1)}
    monkeypatch.setattr(slurm, "in_queue", lambda folder: queued)
    slurm.submit_missing(runs, slurm.read_launcher(), str(tmp_path), messages.append, waiting=False)
    assert sorted(key(run) for chunk in arrays for run in chunk.runs) == [("fc", 0), ("fc", 2), ("mf", 0), ("mf", 2)]
    assert "4 runs submitted" in messages[0]
    assert "1 in the queue already, 1 not yet, as the run that each starts from is in the queue" in messages[0]


@pytest.mark.parametrize("same", ["mine", "./mine", "other/../mine", "{}/mine"])
def test_another_spelling_of_results_dir_submits_no_queued_run_again(same, arrays, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(slurm.shutil, "which", lambda name: name)
    monkeypatch.setattr(slurm, "waiting_or_running", lambda: {"7_0"})
    for folder in ("other", f"mine/{slurm.FOLDER}"):
        Path(folder).mkdir(parents=True)
    runs, again, messages = runs_of("mine"), same.format(tmp_path), []
    slurm.note(Path("mine", slurm.FOLDER), "7_0", [run for run in runs if key(run)[0] == "mf"])
    slurm.submit_missing(runs_of(again), slurm.read_launcher(), again, messages.append, waiting=False)
    assert not arrays
    assert "0 runs submitted, 3 in the queue already, 3 not yet" in messages[0]


def test_a_setting_of_all_series_is_replaced_in_each_and_drops_none():
    item = items.load("lindinger2020_fig4", ["budget=paper", "training.max_iterations=50", "method.num_inducing=32"])
    steps = {sweep.series or sweep.values["method"]: sweep.values["training.max_iterations"] for sweep in item.sweeps}
    assert steps == {("mf", "star", "fc"): ("50",), "fc_ng": ("50",)}
    both = items.load("lindinger2020_tables5", ["training.decay_rate=0.9"])  # which only fc_ng sets, to 0.95
    assert [sweep.values["training.decay_rate"] for sweep in both.sweeps] == [("0.9",), ("0.9",)]
    others = items.load("lindinger2020_fig4", ["optimiser=adam"])
    assert [sweep.series for sweep in others.sweeps] == [None]
    with pytest.raises(UserError, match="optimiser=adam leaves nothing of lindinger2020_tables5"):
        items.load("lindinger2020_tables5", ["optimiser=adam"])
