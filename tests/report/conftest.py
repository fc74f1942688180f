"""Toy records as fixtures; the functions behind them are in toys.py."""

from collections.abc import Callable
from pathlib import Path

import pytest
from toys import write_toy


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
