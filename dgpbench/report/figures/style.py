"""How a method looks, the same in every figure: colour says which method, marker and line say how many layers.

Colours are Okabe and Ito's, and Tol's for the baselines, told apart by the colour-blind and, with marker and line, in
black and white.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FixedFormatter, FixedLocator, FuncFormatter, LogLocator, NullLocator

from dgpbench.experiments.items import column_name

COLOURS = {
    "star": "#D55E00",
    "mf": "#0072B2",
    "fc": "#009E73",
    "sghmc": "#CC79A7",
    "sgp": "#555555",
    "fc_mc": "#AA4499",
    "mf_ng": "#56B4E9",
    "mf_r10": "#56B4E9",
    "aep": "#009E73",
    "fully_factorised": "#009E73",
    "aepmcm": "#E69F00",
    "aepmcm_r10": "#D55E00",
    "sod": "#661100",
    "sod_random": "#E69F00",
    "sod_leverage": "#009E73",
    "sod_dpp": "#000000",
    "mf_fixed_z": "#56B4E9",
    "stripes": "#E69F00",
    "arrow": "#CC79A7",
    "chain": "#56B4E9",
    "gpr": "#000000",
    "sgpr": "#DDCC77",
    "fitc": "#999999",
    "bayesian_ridge": "#999933",
    "gradient_boosting_quantiles": "#882255",
    "ngboost": "#117733",
    "deep_ensemble": "#332288",
    "mc_dropout": "#88CCEE",
    "gpflux_dgp": "#44AA99",
    "gpytorch_dgp": "#AA4499",
}
OTHERS = ("#E69F00", "#56B4E9", "#009E73", "#CC79A7", "#D55E00", "#0072B2", "#999999")
SHAPES = {1: ("s", ":"), 2: ("o", "--"), 3: ("D", "-"), 4: ("^", "-."), 5: ("v", (0, (5, 1, 1, 1, 1, 1)))}
GUEST_MARKERS = {1: "*", 2: "P"}
ARROWS = {  # at the low and the high end of an axis: text, offset from the edge in points, alignment
    ("x", 0): ("← {:.3g}", (3, 0), "left", "center"),
    ("x", 1): ("{:.3g} →", (-3, 0), "right", "center"),
    ("y", 0): ("↓ {:.3g}", (0, 3), "center", "bottom"),
    ("y", 1): ("↑ {:.3g}", (0, -3), "center", "top"),
}
NAMES = {  # that are not their own in capitals
    "fully_factorised": "factorised",
    "mf_fixed_z": "MF fixed Z",
    "fc_mc": "FC-MC",
    "bayesian_ridge": "Bayesian ridge",
    "gradient_boosting_quantiles": "boosting (quantiles)",
    "ngboost": "NGBoost",
    "deep_ensemble": "deep ensemble",
    "mc_dropout": "MC dropout",
    "gpflux_dgp": "GPflux DGP",
    "gpytorch_dgp": "GPyTorch DGP",
}
HATCHES = {1: "", 2: "///", 3: "", 4: "...", 5: "xxx"}
# A score's own unit stands in dgpbench.predictions.metrics; here it is said per what.
UNITS = {"nats": "nats per row", "units of y": "units of y", "share": "share of rows"}
ELBO_LABEL = "ELBO (nats, standardised y)"


@dataclass(frozen=True)
class Look:
    """Colour, marker, line and hatching of one method at one depth."""

    colour: str
    marker: str
    line: object
    hatch: str

    def of_line(self) -> dict:
        """Keyword arguments of ``ax.plot``."""
        return {"color": self.colour, "linestyle": self.line}

    def of_points(self) -> dict:
        """Keyword arguments of ``ax.plot`` for markers without a line."""
        return {"color": self.colour, "marker": self.marker, "linestyle": "none"}


def look(method: str, num_layers: int) -> Look:
    """The look of a method at a depth; one that is not listed gets a colour by its name, and markers of its own."""
    colour = _listed_colour(method)
    marker, line = SHAPES.get(int(num_layers), SHAPES[5])
    if colour is None:
        colour, marker = OTHERS[sum(map(ord, method)) % len(OTHERS)], GUEST_MARKERS.get(int(num_layers), "X")
    return Look(colour, marker, line, HATCHES.get(int(num_layers), "xxx"))


def _listed_colour(method: str) -> str | None:
    return COLOURS.get(method) or COLOURS.get(method.split("_")[0])  # a series is named after its method: star_ng


def label(method: str, num_layers: int) -> str:
    """'STAR L3': how legends and axes name a method at a depth; one that is not listed keeps its name as it is."""
    if "_vs_" in method:
        first, second = (label(side, num_layers) for side in method.split("_vs_"))
        return f"{first.removesuffix(f' L{int(num_layers)}')} vs {second}"
    own = method.upper().replace("_", " ") if _listed_colour(method) else method
    return plain(NAMES.get(method, own)) + column_name(method, int(num_layers)).removeprefix(method)


def plain(text: str) -> str:
    """A name as matplotlib should print it: a pair of dollars in it would start mathematics."""
    return str(text).replace("$", r"\$")


def entries(frame: pd.DataFrame) -> Iterator[tuple[str, Look, pd.DataFrame]]:
    """(label, look, rows) of each method and depth, in the order of the frame."""
    for (method, num_layers), rows in frame.groupby(["method", "num_layers"], sort=False):
        yield label(method, num_layers), look(method, num_layers), rows


def axis_label(metric: str) -> str:
    """'test log-likelihood (nats per row)': a score's axis, with its unit."""
    from dgpbench.predictions.metrics import METRICS

    words = {"tll": "test log-likelihood", "nlpp": "NLPP", "rmse": "RMSE", "crps": "CRPS"}
    if metric == "elbo":
        return ELBO_LABEL
    special = {"win_frequency": "share of rows won", "tll_difference": "TLL difference (nats per row)"}
    if metric in special or metric not in METRICS:
        return special.get(metric, f"{metric.replace('_', ' ')} (s)")
    return f"{words.get(metric, metric.replace('_', ' '))} ({UNITS.get(unit := METRICS[metric].unit, unit)})"


def log_scale(ax: Axes, axis: str) -> None:
    """A logarithmic axis whose tick labels stay apart: 1, 2, 5 over few decades, powers of ten over many."""
    getattr(ax, f"set_{axis}scale")("log")
    one = getattr(ax, f"{axis}axis")
    low, high = sorted(getattr(ax, f"get_{axis}lim")())
    if high < 300 * low:
        one.set_major_locator(LogLocator(subs=(1, 2, 5)))
        one.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    one.set_minor_locator(NullLocator())  # a label's room is measured for each minor tick, too


def name_rows(ax: Axes, places: Iterable[float], names: Iterable[str]) -> None:
    """Names on the y axis in place of numbers; unlike ``set_yticks`` it makes no tick before one is drawn."""
    ax.yaxis.set_major_locator(FixedLocator(list(places)))
    ax.yaxis.set_major_formatter(FixedFormatter(list(names)))


def row_lines(ax: Axes, rows: int) -> None:
    """The grid's lines of y, which a panel keeps whose rows the one beside it names."""
    look = {"colors": matplotlib.rcParams["grid.color"], "linewidths": matplotlib.rcParams["grid.linewidth"]}
    ax.yaxis.grid(visible=False)
    ax.hlines(range(rows), 0, 1, transform=ax.get_yaxis_transform(), zorder=0.5, **look)


def focus(ax: Axes, axis: str, marks: pd.DataFrame) -> None:
    """Limits of an axis for most of its marks, where a few would flatten all others.

    Those are beyond Tukey's outer fences, three interquartile ranges from the quartiles, and without them the axis is
    less than a third as long. Each becomes an arrow with its value at the edge.

    :param axis: x or y, that of the values
    :param marks: columns value, spread (to either side), other (the place on the other axis), colour, count (of an
        incomplete mean, such as 6/10; else empty)
    """
    first, third = np.nanquantile(marks["value"], [0.25, 0.75])
    lowest, highest = first - 3 * (third - first), third + 3 * (third - first)
    beyond = (marks["value"] < lowest) | (marks["value"] > highest)
    inside = marks[~beyond]
    if not 0 < 3 * np.ptp(inside["value"].dropna()) < np.ptp(marks["value"].dropna()):
        return
    low = max(lowest, (inside["value"] - inside["spread"]).min())
    high = min(highest, (inside["value"] + inside["spread"]).max())
    room = 0.12 * (high - low)
    if axis == "x":
        ax.set_xlim(low - room, high + room)
    else:
        ax.set_ylim(low - room, high + room)
    for mark in marks[beyond].rename(columns={"count": "count_"}).itertuples():  # a tuple has a method count
        end = int(mark.value > highest)
        text, offset, horizontal, vertical = ARROWS[axis, end]
        ax.annotate(
            text.format(mark.value) if not mark.count_ else text.format(mark.value) + f" ({mark.count_})",
            (end, mark.other) if axis == "x" else (mark.other, end),
            offset,
            xycoords=ax.get_yaxis_transform() if axis == "x" else ax.get_xaxis_transform(),
            textcoords="offset points",
            ha=horizontal,
            va=vertical,
            color=mark.colour,
            fontsize="x-small",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},  # over its own bar
        )


@contextmanager
def house_style() -> Iterator[None]:
    """The settings of ``dgpbench.mplstyle`` while a figure is made and saved, and no window ever."""
    with matplotlib.rc_context(_style()):
        yield


@cache
def _style() -> matplotlib.RcParams:
    path = Path(__file__).parent.parent / "dgpbench.mplstyle"
    return matplotlib.rc_params_from_file(path, use_default_template=False)
