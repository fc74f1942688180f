"""Toy records as fixtures; the functions behind them are in toys.py."""

import shutil
from collections.abc import Callable
from pathlib import Path

import fit_once
import pytest
from compact_files import GIVEN, SMALL
from matplotlib.figure import Figure
from toys import write_toy

from dgpbench.cli import main


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """An empty folder for records."""
    return tmp_path / "results"


@pytest.fixture
def toy(results: Path) -> Callable[..., Path]:
    """``toy(scores, method=..., split=...)`` writes a toy run below ``results``."""
    return lambda scores=None, **given: write_toy(results, scores, **given)


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of toy files need not survive a loss of power."""
    monkeypatch.setattr("os.fsync", lambda handle: None)


@pytest.fixture
def saved(monkeypatch) -> list[Figure]:
    """The figures that are saved from here on, in their order."""
    kept: list[Figure] = []

    def keep(self, target, **options):
        Path(target).write_bytes(b"a figure")
        kept.append(self)

    monkeypatch.setattr(Figure, "savefig", keep)
    return kept


@pytest.fixture
def drawn(saved, results):
    """``drawn(item, *overrides)``: the figures of ``dgpbench figure``, read from ``results``."""

    def draw(item: str, *given: str) -> list[Figure]:
        assert main(["figure", item, *given, f"results_dir={results}"]) == 0
        return saved

    return draw


@pytest.fixture(scope="session")
def exported(tmp_path_factory) -> Path:
    """Runs of three items without training, and their compact records."""
    folder = tmp_path_factory.mktemp("made") / "results"
    with pytest.MonkeyPatch.context() as patch:
        fit_once.without_training(patch)
        for item, narrowed in SMALL.items():
            assert (
                fit_once.command("reproduce", item, *narrowed, *GIVEN, f"results_dir={folder}", "progress=false") == 0
            )
    assert fit_once.command("results", "export", f"results_dir={folder}") == 0
    return folder


@pytest.fixture
def fresh(exported, tmp_path) -> Path:
    """A fresh clone: the compact records alone."""
    shutil.copytree(exported / "records", tmp_path / "fresh" / "records")
    return tmp_path / "fresh"
