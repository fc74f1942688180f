"""Runs on a Slurm cluster; tests marked slurm need a running one, such as scripts/start_slurm starts."""

import os
import shutil
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from dgpbench.cli import main
from dgpbench.experiments import slurm
from dgpbench.runs import store
from dgpbench.runs.resolve import resolve_overrides

ITEM = "lindinger2020_table1"
NARROWED = ["budget=smoke", "dataset=boston", "method=mf,star", "method.num_layers=2", "split=range(3)"]


def obstacle() -> str | None:
    """Why no job can be submitted here, or None."""
    if find_spec("submitit") is None:
        return "submitit is not installed: pip install 'dgpbench[slurm]'"
    if shutil.which("sinfo") is None:
        return "Slurm is not installed: apt-get install slurm-wlm munge, then scripts/start_slurm as root"
    up = subprocess.run(["sinfo", "-h", "-o", "%t"], capture_output=True, text=True)
    return (
        None if up.stdout.strip() else "Slurm is not running: scripts/start_slurm, then export the SLURM_CONF it names"
    )


needs_slurm = pytest.mark.skipif(obstacle() is not None, reason=obstacle() or "")


# Without a cluster ----------------------------------------------------------------------------------------------------


def test_a_sites_file_is_put_over_the_defaults(tmp_path):
    file = tmp_path / "site.yaml"
    file.write_text("partition: long\nminutes: 90\n")
    launcher = slurm.read_launcher(str(file))
    assert launcher.partition == "long"
    assert launcher.parameters()["timeout_min"] == 90
    assert launcher.cpus == slurm.read_launcher().cpus
    assert "slurm_account" not in launcher.parameters()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("partitoin: x", "did you mean partition?"),
        ("[1, 2]", "no settings"),
        ("", "no settings"),
        ("minutes: 0", "launcher.minutes=0 cannot be used; launcher.minutes takes a whole number of at least 1"),
        ("minutes: 4:00:00", "launcher.minutes=4:00:00 cannot be used; launcher.minutes takes a whole number"),
        ("minutes: two hours", "launcher.minutes takes a whole number"),
        ("minutes: 43201", "at most 43200"),
        ("cpus: 1.5", "cpus=1.5"),
        ("memory_gb: .inf", "launcher.memory_gb=inf cannot be used; launcher.memory_gb takes a number"),
        ("memory_gb: -1", "launcher.memory_gb=-1"),
        ("partition: [a, b]", "launcher.partition takes a text or null"),
        ("setup: module load python", "launcher.setup=module load python cannot be used; launcher.setup takes a list"),
        ("setup: [1]", "it must be a list of shell lines"),
        ("minutes: [", "cannot read the file"),
    ],
)
def test_an_invalid_site_file_is_refused(tmp_path, text, message, capsys):
    file = tmp_path / "site.yaml"
    file.write_text(text)
    assert main(["reproduce", ITEM, *NARROWED, "--engine", "slurm", "--launcher", str(file)]) == 2
    error = capsys.readouterr().err
    assert f"--launcher {file}: " in error
    assert message in error


@pytest.mark.parametrize("missing", [{"sbatch"}, {"srun"}, {"squeue"}, {"sbatch", "srun", "squeue"}])
def test_without_slurm_the_command_names_what_is_missing(missing, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(shutil, "which", lambda name: None if name in missing else name)
    monkeypatch.setitem(sys.modules, "submitit", sys)  # as if it were installed
    assert main(["reproduce", ITEM, *NARROWED, f"results_dir={tmp_path}", "--engine", "slurm"]) == 2
    named = [name for name in ("sbatch", "srun", "squeue") if name in missing]
    assert f"missing here: {', '.join(named)};" in capsys.readouterr().err


def test_waiting_is_for_clusters(capsys):
    assert main(["reproduce", ITEM, "--wait"]) == 2
    assert "--engine slurm" in capsys.readouterr().err


def test_runs_that_a_queued_job_has_are_known(tmp_path, monkeypatch):
    lines = ['{"job": "7_0", "directory": "a"}', '{"job": "7_1", "directory": "b"}']
    (tmp_path / "submitted.jsonl").write_text("\n".join(lines) + "\n")
    monkeypatch.setattr(shutil, "which", lambda name: name)
    monkeypatch.setattr(slurm, "waiting_or_running", lambda: {"7_1"})
    assert slurm.in_queue(tmp_path) == {"b": "7_1"}


def test_a_line_that_was_cut_short_is_skipped_alone(tmp_path, monkeypatch):
    run = resolve_overrides(["method=gpr", f"results_dir={tmp_path}"])
    (tmp_path / "submitted.jsonl").write_text('{"job": "7_0", "directory": "a"}\n[]\n{"job": "7_1", "direc')
    slurm.note(tmp_path, "8_0", [run])
    monkeypatch.setattr(shutil, "which", lambda name: name)
    monkeypatch.setattr(slurm, "waiting_or_running", lambda: {"7_0", "7_1", "8_0"})
    assert slurm.in_queue(tmp_path) == {"a": "7_0", str(run.directory): "8_0"}


# With a cluster -------------------------------------------------------------------------------------------------------


@pytest.mark.slurm
@pytest.mark.timeout(900)
@needs_slurm
def test_an_array_of_six_survives_a_requeue_and_a_kill(tmp_path):
    submitted = _reproduce(tmp_path)
    assert "6 runs submitted" in submitted.stderr, submitted.stderr
    again = _reproduce(tmp_path)
    assert "0 runs submitted" in again.stderr
    assert "6 in the queue already" in again.stderr
    array = _jobs()[0].partition("_")[0]
    _until(lambda: _training(tmp_path), 120)
    _kill_one(array)
    _requeue_one(array)
    _reproduce(tmp_path, "--wait")
    ended = _reproduce(tmp_path, "--wait")  # the killed run is missing, and is submitted again
    assert ended.returncode == 0, ended.stderr
    assert len(_done(tmp_path)) == 6
    assert "6 done" in ended.stderr
    for path in _done(tmp_path):
        assert store.verify_run(path.parent) == []


def _reproduce(results: Path, *flags: str) -> subprocess.CompletedProcess:
    command = [
        sys.executable,
        "-m",
        "dgpbench",
        "reproduce",
        ITEM,
        *NARROWED,
        f"results_dir={results}",
        "--engine",
        "slurm",
    ]
    return subprocess.run([*command, *flags], capture_output=True, text=True, timeout=600)


def _jobs(*flags: str) -> list[str]:
    command = ["squeue", "--me", "--array", "--noheader", "--name=dgpbench", "--format=%i", *flags]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def _running() -> list[str]:
    return _jobs("--states=RUNNING")


def _training(results: Path) -> bool:
    """Return whether a run has started, by its lock."""
    return bool(_running()) and any((results / ".locks").glob("*.lock"))


def _kill_one(array: str) -> None:
    """SIGKILL a run's process, as the kernel does when memory runs out."""
    [job, *_] = [job for job in _running() if job.startswith(array)]
    os.kill(_process_of(job), signal.SIGKILL)


def _requeue_one(array: str) -> None:
    """Requeue the job, as preemption does, without Slurm's delay."""
    _until(lambda: any(job.startswith(array) for job in _running()), 60)
    [job, *_] = [job for job in _running() if job.startswith(array)]
    subprocess.run(["scontrol", "requeue", job], check=True)
    _until(lambda: job in _jobs("--states=PENDING"), 90)
    subprocess.run(["scontrol", "update", f"JobId={job}", "StartTime=now"], check=True)


def _process_of(job: str) -> int:
    """The process of an array task's run: the one that knows its task and executes submitit's module."""
    array, _, task = job.partition("_")
    marks = [f"SLURM_ARRAY_JOB_ID={array}".encode(), f"SLURM_ARRAY_TASK_ID={task}".encode(), b"SLURM_PROCID=0"]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            known, command = (process / "environ").read_bytes().split(b"\0"), (process / "cmdline").read_bytes()
        except OSError:
            continue
        if all(mark in known for mark in marks) and command.startswith(sys.executable.encode()):
            return int(process.name)
    raise AssertionError(f"array task {job} has no process here")


def _done(results: Path) -> list[Path]:
    return [
        path for path, record in store.find_records(results) if isinstance(record, dict) and record["status"] == "done"
    ]


def _until(condition, seconds: float) -> None:
    start = time.monotonic()
    while not condition():
        assert time.monotonic() - start < seconds, "it did not happen in time"
        time.sleep(0.5)
