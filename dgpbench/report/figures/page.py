"""Panels on one page: each a frame and the function that draws it, in a grid, with one legend where they share it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import NullLocator
from matplotlib.transforms import ScaledTranslation

from dgpbench.report.figures.style import house_style, plain
from dgpbench.system import files

SQUARE, WIDE, NARROW = (3.9, 3.0), (4.2, 3.1), (3.5, 2.7)  # panel sizes, inches
LABEL_INCHES = 0.45  # tick labels and axis label below a panel
LINE_INCHES = 0.2  # of a legend
NOTE_LETTERS, NOTE_INCHES = 15, 0.16  # of a line of a note: letters to an inch, and its height


@dataclass(frozen=True)
class Panel:
    """One set of axes.

    :param size: width and height in inches
    :param comparable: share the colour scale or else the y scale with all panels of the same ``draw``
    """

    title: str
    draw: Callable[[pd.DataFrame, Axes], None]
    frame: pd.DataFrame
    size: tuple[float, float] = NARROW
    comparable: bool = False


def page(title: str, panels: Sequence[Panel], columns: int = 3, note: str = "") -> Figure:
    """Draw all panels, row by row, under one title, with a note in small letters below."""
    with house_style():
        columns = min(columns, len(panels))
        rows = ceil(len(panels) / columns)
        width, height = (max(panel.size[axis] for panel in panels) for axis in (0, 1))
        # Constrained layout ignores an axis label that is wider than its axes: hence a margin.
        layout = ConstrainedLayoutEngine(wspace=0.06, hspace=0.06, rect=(0.01, 0.01, 0.98, 0.98))
        figure = Figure(figsize=(max(5.0, columns * width), rows * height + 0.6), layout=layout)
        axes: list[Axes] = list(figure.subplots(rows, columns, squeeze=False).ravel())
        for ax in axes[len(panels) :]:
            ax.set_axis_off()
        axes = axes[: len(panels)]
        for panel, ax in zip(panels, axes, strict=True):
            panel.draw(panel.frame, ax)
            ax.set_title(plain(panel.title))
        _share_scales(panels, axes)
        names = [getattr(ax.yaxis.get_major_formatter(), "seq", None) for ax in axes]
        for place in range(1, len(axes)):  # neighbours with the same names of rows, such as methods, show them once
            if place % columns and names[place] and names[place] == names[place - 1]:
                axes[place].yaxis.set_major_locator(NullLocator())
                axes[place].set_ylabel("")
        letters = max(30, int(figure.get_figwidth() * 11))
        figure.suptitle("\n".join(fill(line, letters) for line in plain(title).splitlines()), fontsize="large")
        _share_legend(figure, axes, columns)
        if note:
            text = fill(plain(note), int(figure.get_figwidth() * NOTE_LETTERS))
            figure.supxlabel(text, fontsize="small")
            figure.set_figheight(figure.get_figheight() + NOTE_INCHES * (1 + text.count("\n")))
    return figure


def save(
    figure: Figure,
    output: Path,
    advice: str = files.ANOTHER_FOLDER,
    texts: Mapping[str, str | None] | None = None,
) -> Path:
    """Write a figure, without a date; the suffix names the format.

    :param advice: how the user can choose another place
    :param texts: metadata of the file by name; None leaves out what matplotlib writes there
    """
    kind = output.suffix.lstrip(".")
    dated: dict[str, dict[str, str | None]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    with house_style(), files.replacing(output, advice) as partial:
        figure.savefig(partial, format=kind, metadata={**dated.get(kind, {}), **(texts or {})})
    return output


def _share_scales(panels: Sequence[Panel], axes: Sequence[Axes]) -> None:
    """Give comparable panels that are drawn alike one scale: what looks larger is larger."""
    alike: dict[Callable, list[Axes]] = {}
    for panel, ax in zip(panels, axes, strict=True):
        if panel.comparable:
            alike.setdefault(panel.draw, []).append(ax)
    for group in alike.values():
        images = [image for ax in group for image in ax.images]
        limits = np.array([image.get_clim() for image in images] or [ax.get_ylim() for ax in group])
        low, high = limits[:, 0].min(), limits[:, 1].max()
        for image in images:
            image.set_clim(low, high)
        for ax in group if not images else ():
            ax.set_ylim(low, high)


def _share_legend(figure: Figure, axes: list[Axes], columns: int) -> None:
    """Put legends below, where they cover no data: one for all panels, or one each if their entries differ."""
    labelled = {ax: entries for ax in axes if (entries := ax.get_legend_handles_labels())[1]}
    if not labelled:
        return

    def fitting(inches: float, labels: list[str]) -> int:  # entries beside each other
        return max(1, min(len(labels), int(inches / (0.55 + 0.065 * max(map(len, labels))))))

    most = max(labelled.values(), key=lambda entries: len(entries[1]))
    if not any(set(labels) - set(most[1]) for _, labels in labelled.values()):
        beside = fitting(figure.get_figwidth(), most[1])
        figure.legend(*most, loc="outside lower center", ncols=beside)
        lines = ceil(len(most[1]) / beside)  # the page has room for two
        figure.set_figheight(figure.get_figheight() + LINE_INCHES * max(0, lines - 2))
        return
    for ax, entries in labelled.items():
        if ax.get_aspect() == 1:  # a square leaves room beside it
            ax.legend(*entries, loc="upper left", bbox_to_anchor=(1, 1), borderaxespad=0)
        else:
            below = ax.transAxes + ScaledTranslation(0, -LABEL_INCHES, figure.dpi_scale_trans)
            place: dict[str, Any] = {"bbox_to_anchor": (0.45, 0), "bbox_transform": below, "borderaxespad": 0}
            ncols = fitting(figure.get_figwidth() / columns, entries[1])
            ax.legend(*entries, ncols=ncols, loc="upper center", **place)
