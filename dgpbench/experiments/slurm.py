"""``reproduce --engine slurm``: submit missing runs as Slurm job arrays, through submitit.

Jobs leave their results as records in the results folder, so the same command later submits whatever is still missing.
A job that Slurm ends early (preemption, requeue) resumes from the run's checkpoint.
"""

import itertools
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from dgpbench.config import groups
from dgpbench.config.settings import build, setting
from dgpbench.errors import UserError
from dgpbench.experiments import engine
from dgpbench.runs.resolve import Run
from dgpbench.system import interrupts
from dgpbench.system.files import refusing_unwritable
from dgpbench.system.progress import counted

COMMANDS = ("sbatch", "srun", "squeue")  # submitit looks for srun too
FOLDER = ".slurm"  # below results_dir: logs, submitit's files and the list of what was submitted


@dataclass(frozen=True)
class Launcher:
    """Resources of an array task: the keys of ``conf/launcher/slurm.yaml``, which explains them."""

    minutes: int = setting("time limit of an array task", low=1, high=30 * 24 * 60)
    memory_gb: float = setting("memory of an array task", low=0.1)
    cpus: int = setting("cores of an array task", low=1)
    runs_per_task: int = setting("runs that one array task executes in turn", low=1)
    array_size: int = setting("maximum number of tasks in one array", low=1)
    at_once: int = setting("maximum number of tasks of an array at a time", low=1)
    partition: str | None = setting("null: the cluster's default")
    account: str | None = setting("null: the cluster's default")
    qos: str | None = setting("null: the cluster's default")
    constraint: str | None = setting("null: none")
    setup: list = setting("shell lines before the run")

    def __post_init__(self) -> None:
        if not all(isinstance(line, str) for line in self.setup):
            raise UserError(f"launcher.setup={self.setup} cannot be used; it must be a list of shell lines")

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of submitit's executor."""
        given = {key: getattr(self, key) for key in ("account", "qos", "constraint", "partition")}
        return {f"slurm_{key}": value for key, value in given.items() if value is not None} | {
            "timeout_min": self.minutes,
            "slurm_mem": f"{round(1024 * self.memory_gb)}M",
            "cpus_per_task": self.cpus,
            "slurm_array_parallelism": self.at_once,
            "slurm_setup": self.setup,
            "slurm_additional_parameters": {"requeue": True},
            "name": "dgpbench",
        }


def read_launcher(path: str | None = None) -> Launcher:
    """Return the settings of ``conf/launcher/slurm.yaml``, updated with those of a site's own file.

    :raises UserError: for a file that cannot be read, an unknown key, or a value that its key does not take
    """
    values = groups.describe("launcher", "slurm")
    if path is None:
        return build(Launcher, "launcher", values)
    try:
        text = Path(path).read_text(encoding="utf-8")
        own, as_written = yaml.safe_load(text), yaml.load(text, Loader=yaml.BaseLoader)
    except (OSError, ValueError, yaml.YAMLError) as problem:
        raise UserError(f"--launcher {path}: cannot read the file: {str(problem).splitlines()[0]}") from None
    if not isinstance(own, dict):
        raise UserError(f"--launcher {path}: the file contains no settings, such as minutes: 240")
    # YAML reads 4:00:00 as the number 4 * 60^2 + 0 * 60 + 0: ten days of minutes.
    times = {key: value for key, value in as_written.items() if isinstance(value, str) and ":" in value}
    try:
        return build(Launcher, "launcher", values | {str(key): value for key, value in own.items()} | times)
    except UserError as refusal:
        raise UserError(f"--launcher {path}: {refusal}") from None


@dataclass(frozen=True)
class Chunk:
    """The runs of one array task, one after the other; finished ones are skipped.

    submitit calls ``checkpoint`` when Slurm announces the end of the time limit or a preemption, and submits what it
    returns: the same runs. The interrupted one resumes from its own checkpoint.
    """

    runs: Sequence[Run]

    def __call__(self) -> list[str]:
        """Execute the runs; on SIGTERM write a checkpoint and stop."""
        with interrupts.handled():
            ended = engine.engine([run.without_progress() for run in self.runs], workers=1)
        for outcome in ended:
            print(outcome.message, flush=True)
        return [outcome.status for outcome in ended]

    def checkpoint(self) -> Any:
        """Return what to submit when this task is cut short."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)


def submit(runs: Sequence[Run], launcher: Launcher, folder: Path) -> list[str]:
    """Submit runs as job arrays and return the arrays' numbers; a run shares a task with the run that it starts from.

    :param folder: for logs and submitit's files
    :raises UserError: if Slurm or submitit is missing, or Slurm rejects the jobs
    """
    executor = executor_of(launcher, folder)
    chunks = [list(itertools.chain.from_iterable(part)) for part in _cut(engine.chains(runs), launcher.runs_per_task)]
    arrays = []
    for part in _cut(chunks, launcher.array_size):
        jobs = submit_array(executor, [Chunk(chunk) for chunk in part])
        for job, chunk in zip(jobs, part, strict=True):
            note(folder, job.job_id, chunk)
        arrays.append(jobs[0].job_id.partition("_")[0])
    return arrays


def executor_of(launcher: Launcher, folder: Path) -> Any:
    """Return submitit's executor with the resources of a task."""
    try:
        import submitit
    except ImportError:
        raise UserError("--engine slurm needs submitit; pip install 'dgpbench[slurm]'") from None
    if missing := [name for name in COMMANDS if shutil.which(name) is None]:
        raise UserError(
            f"--engine slurm needs Slurm's commands {', '.join(COMMANDS)}; missing here: {', '.join(missing)}; use "
            "--workers N on this machine"
        )
    with refusing_unwritable(folder):
        folder.mkdir(parents=True, exist_ok=True)
    executor = submitit.AutoExecutor(folder=str(folder / "%A"), cluster="slurm")
    executor.update_parameters(**launcher.parameters())
    return executor


def submit_array(executor: Any, chunks: Sequence[Chunk]) -> list[Any]:
    """Submit one job array and return its jobs."""
    from submitit.core.utils import FailedJobError

    try:
        with executor.batch():
            return [executor.submit(chunk) for chunk in chunks]
    except (FailedJobError, subprocess.CalledProcessError) as problem:
        raise UserError(f"Slurm rejected the jobs: {_last_line(str(problem))}") from None


def _last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "no reason given")


def _cut(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


# The queue ------------------------------------------------------------------------------------------------------------


def note(folder: Path, job: str, runs: Iterable[Run]) -> None:
    """Append a line for each run: its array task."""
    lines = [json.dumps({"job": job, "directory": os.path.realpath(run.directory)}) + "\n" for run in runs]
    with refusing_unwritable(folder), open(folder / "submitted.jsonl", "a", encoding="utf-8") as file:
        file.write("\n" + "".join(lines))  # the line before may have been cut short


def in_queue(folder: Path) -> dict[str, str]:
    """Return run directory -> array task, for submitted runs that are waiting or running."""
    path = folder / "submitted.jsonl"
    if not path.is_file() or shutil.which("squeue") is None:
        return {}
    alive, queued = waiting_or_running(), {}
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        with suppress(ValueError, KeyError, TypeError):  # a process may have been killed while writing a line
            entry = json.loads(line)
            if entry["job"] in alive:
                queued[entry["directory"]] = entry["job"]
    return queued


def waiting_or_running() -> set[str]:
    """Return this user's array tasks in the queue, such as 12_3."""
    command = ["squeue", "--me", "--array", "--noheader", "--format=%i"]
    response = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if response.returncode != 0:
        raise UserError(f"squeue cannot list the queue: {_last_line(response.stderr)}")
    return set(response.stdout.split())


def wait(jobs: Iterable[str], launcher: Launcher) -> None:
    """Return when every job has ended: Slurm itself waits, as a dependency of an empty task."""
    settings = {"partition": launcher.partition, "account": launcher.account}
    options = [f"--{key}={value}" for key, value in settings.items() if value is not None]
    dependency = f"--dependency=afterany:{':'.join(sorted(set(jobs)))}"
    command = ["srun", "--quiet", "--time=1", "--ntasks=1", *options, dependency, "true"]
    response = subprocess.run(command, capture_output=True, text=True)
    if response.returncode != 0:
        raise UserError(
            f"Slurm cannot wait for the jobs: {_last_line(response.stderr)}; they continue to run and write records"
        )


def submit_missing(
    todo: Sequence[Run], launcher: Launcher, results_dir: str, say: Callable[[str], None], *, waiting: bool
) -> None:
    """Submit the runs that no queued job has; with ``waiting``, return when all have ended."""
    folder = Path(results_dir, FOLDER).absolute()
    queued = in_queue(folder)
    places = {run.directory: os.path.realpath(run.directory) for run in todo}
    others = engine.chains([run for run in todo if places[run.directory] not in queued])
    ready = [chain for chain in others if not (before := chain[0].start) or os.path.realpath(before) not in queued]
    new = list(itertools.chain.from_iterable(ready))
    arrays = submit(new, launcher, folder) if new else []
    names = f" as job {', '.join(arrays)}" if arrays else ""
    known = [queued[place] for place in places.values() if place in queued]
    waits = len(todo) - len(new) - len(known)
    start = f", {waits} not yet, as the run that each starts from is in the queue" if waits else ""
    say(f"Slurm: {counted(len(new), 'run')} submitted{names}, {len(known)} in the queue already{start}; logs: {folder}")
    jobs = [*arrays, *known]
    if waiting and jobs:
        wait(jobs, launcher)
    elif jobs:
        say("run the same command again to collect the results and to submit what is still missing")
