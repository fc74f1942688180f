"""Committed pictures, redrawn only if their numbers or looks change: their bytes depend on matplotlib's build."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dgpbench.report.figures.page import Panel, page, save
from dgpbench.report.figures.style import entries

KEY = "Plotted"  # the PNG's own text with the digest of what is drawn


@dataclass(frozen=True)
class Picture:
    """A page of panels."""

    title: str
    panels: Sequence[Panel]
    columns: int

    @property
    def plotted(self) -> str:
        """Digest of the title, the drawn numbers to six digits, and the looks of the methods."""
        parts = [f"{panel.title}\n{panel.frame.to_csv(index=False, float_format='%.6g')}" for panel in self.panels]
        named = [panel.frame for panel in self.panels if "method" in panel.frame]
        parts += dict.fromkeys(f"{name}: {look}" for frame in named for name, look, _ in entries(frame))
        return hashlib.sha256("\n".join([self.title, *parts]).encode()).hexdigest()


def differs(picture: Picture | None, path: Path) -> bool:
    """Check whether the file shows other numbers, has none to show, or is missing."""
    if picture is None or not path.is_file():
        return (picture is None) == path.is_file()
    return _plotted_in(path) != picture.plotted


def write(picture: Picture | None, path: Path) -> None:
    """Draw the picture; if it is None, remove the file."""
    if picture is None:
        path.unlink(missing_ok=True)
    else:
        save(page(picture.title, picture.panels, picture.columns), path, texts={"Software": None, KEY: picture.plotted})


def _plotted_in(path: Path) -> str | None:
    from PIL import Image

    try:
        with Image.open(path) as image:
            image.load()
            return image.info.get(KEY)
    except OSError:  # damaged, or no picture
        return None
