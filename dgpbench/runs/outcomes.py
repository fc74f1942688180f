"""How runs ended: collected in a file, so that every launcher, in this process or another, adds to one list."""

import json
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

_VARIABLE = "DGPBENCH_OUTCOMES"  # launchers hand the environment down to their workers
EXIT_CODES = {
    "done": 0,
    "skipped": 0,
    "failed": 1,
    "diverged": 1,
    "timeout": 1,
    "blocked": 1,
    "refused": 2,
    "interrupted": 130,
}


@dataclass(frozen=True)
class Outcome:
    """How one run ended.

    :param status: a key of ``EXIT_CODES``
    :param directory: where its record is, if it has one
    :param message: one sentence for the user
    """

    status: str
    directory: str | None
    message: str


@contextmanager
def collecting() -> Iterator[Path]:
    """A file that ``add`` writes to, here and in this process's children, for as long as the block lasts."""
    before = os.environ.get(_VARIABLE)
    with TemporaryDirectory(prefix="dgpbench-") as folder:
        path = Path(folder) / "outcomes.jsonl"
        os.environ[_VARIABLE] = str(path)
        try:
            yield path
        finally:
            os.environ.pop(_VARIABLE)
            if before is not None:
                os.environ[_VARIABLE] = before


def add(outcome: Outcome) -> None:
    """Append an outcome; one short write, which the operating system keeps whole."""
    if _VARIABLE in os.environ:
        with open(os.environ[_VARIABLE], "a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(outcome)) + "\n")


def read(path: Path) -> list[Outcome]:
    """All outcomes so far."""
    if not path.exists():
        return []
    return [Outcome(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def exit_code(outcomes: list[Outcome]) -> int:
    """0 when all are done or skipped; else 130 before 2 before 1: the least usual end that occurred."""
    return max((EXIT_CODES[outcome.status] for outcome in outcomes), default=0)


def summary(outcomes: list[Outcome]) -> str:
    """'3 done, 1 skipped'."""
    counts = Counter(outcome.status for outcome in outcomes)
    return ", ".join(f"{counts[status]:,} {status}" for status in EXIT_CODES if counts[status])
