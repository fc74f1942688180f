"""Panels on one page: each a frame and the function that draws it, in a grid, with one legend where they share it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil
from textwrap import fill

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FixedFormatter, NullLocator
from matplotlib.transforms import ScaledTranslation

from dgpbench.report.figures.style import house_style, plain

LABEL_INCHES = 0.45  # tick labels and axis label below a panel
LINE_INCHES = 0.2  # of a legend
NOTE_LETTERS, NOTE_INCHES = 15, 0.16  # of a line of a note: letters to an inch, and its height


@dataclass(frozen=True)
class Panel:
    """One set of axes.

    :param draw: ``(frame, ax) -> ax``
    :param size: width and height in inches
    :param comparable: whether all panels that are drawn like it have one scale, of colours or else of y
    """

    title: str
    draw: Callable[[pd.DataFrame, Axes], Axes]
    frame: pd.DataFrame
    size: tuple[float, float] = (3.5, 2.7)
    comparable: bool = False


def page(title: str, panels: Sequence[Panel], columns: int = 3, note: str = "") -> Figure:
    """All panels, row by row, under one title; a note in small letters below."""
    with house_style():
        columns = min(columns, len(panels))
        rows = ceil(len(panels) / columns)
        width, height = (max(panel.size[axis] for panel in panels) for axis in (0, 1))
        # Constrained layout takes no heed of an axis label that is wider than its axes: hence a margin.
        layout = ConstrainedLayoutEngine(wspace=0.06, hspace=0.06, rect=(0.01, 0.01, 0.98, 0.98))
        figure = Figure(figsize=(max(5.0, columns * width), rows * height + 0.6), layout=layout)
        axes: list[Axes] = list(figure.subplots(rows, columns, squeeze=False).ravel())
        for panel, ax in zip(panels, axes, strict=False):
            panel.draw(panel.frame, ax).set_title(plain(panel.title))
        for ax in axes[len(panels) :]:
            ax.set_axis_off()
        _share_scales(panels, axes)
        _name_rows_once(axes[: len(panels)], columns)
        figure.suptitle(_wrapped(title, figure.get_figwidth()), fontsize="large")
        _share_legend(figure, axes[: len(panels)], columns)
        if note:
            text = fill(plain(note), int(figure.get_figwidth() * NOTE_LETTERS))
            figure.supxlabel(text, fontsize="small")
            figure.set_figheight(figure.get_figheight() + NOTE_INCHES * (1 + text.count("\n")))
    return figure


def _wrapped(title: str, inches: float) -> str:
    """Each line of a title, broken where it would be wider than the page."""
    return "\n".join(fill(line, max(30, int(inches * 11))) for line in plain(title).splitlines())


def _share_scales(panels: Sequence[Panel], axes: Sequence[Axes]) -> None:
    """One scale for the comparable panels that are drawn alike: what looks larger is larger."""
    alike: dict[Callable, list[Axes]] = {}
    for panel, ax in zip(panels, axes, strict=False):
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


def _name_rows_once(axes: Sequence[Axes], columns: int) -> None:
    """Of panels side by side that name the same rows, methods say, only the leftmost says the names."""
    names = [_rows_of(ax.yaxis) for ax in axes]
    for place, ax in enumerate(axes):
        if place % columns and names[place] and names[place] == names[place - 1]:
            ax.yaxis.set_major_locator(NullLocator())
            ax.set_ylabel("")


def _rows_of(axis: Axis) -> tuple[str, ...]:
    """The names that an axis lists, as methods are listed; none where it is a scale."""
    formatter = axis.get_major_formatter()
    return tuple(formatter.seq) if isinstance(formatter, FixedFormatter) else ()


def _share_legend(figure: Figure, axes: list[Axes], columns: int) -> None:
    """Legends go below, where they cover no data: one for all panels, or one each where they name different things."""
    legends = {ax: legend for ax in axes if (legend := ax.get_legend()) is not None}
    labelled = {ax: ax.get_legend_handles_labels() for ax in legends}
    for legend in legends.values():
        legend.remove()
    if not labelled:
        return
    most = max(labelled.values(), key=lambda found: len(found[1]))
    if any(set(labels) - set(most[1]) for _, labels in labelled.values()):
        for ax, found in labelled.items():
            _legend_below(figure, ax, columns, *found)
        return
    beside = _fitting(figure.get_figwidth(), most[1])
    figure.legend(*most, loc="outside lower center", ncols=beside)
    lines = ceil(len(most[1]) / beside)  # the page has room for two
    figure.set_figheight(figure.get_figheight() + LINE_INCHES * max(0, lines - 2))


def _legend_below(figure: Figure, ax: Axes, columns: int, handles: list, labels: list[str]) -> None:
    """A legend under the axes' own label, or to the right of a square."""
    if ax.get_aspect() == 1:  # a square leaves room beside it
        ax.legend(handles, labels, loc="upper left", bbox_to_anchor=(1, 1), borderaxespad=0)
        return
    below = ax.transAxes + ScaledTranslation(0, -LABEL_INCHES, figure.dpi_scale_trans)
    beside = _fitting(figure.get_figwidth() / columns, labels)
    ax.legend(
        handles,
        labels,
        ncols=beside,
        loc="upper center",
        bbox_to_anchor=(0.45, 0),
        bbox_transform=below,
        borderaxespad=0,
    )


def _fitting(inches: float, labels: list[str]) -> int:
    """How many entries stand beside each other."""
    return max(1, min(len(labels), int(inches / (0.55 + 0.065 * max(map(len, labels))))))
