"""Look of each method, the same in every figure: colour for the method, marker and line for the number of layers.

Colours are Okabe and Ito's, and Tol's for the baselines: distinct for colour-blind readers and, with marker and line,
in black and white.
"""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

import matplotlib.style
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FixedFormatter, FixedLocator, FuncFormatter, LogLocator, NullLocator

from dgpbench.experiments.items import column_name
from dgpbench.predictive.scores import METRICS

COLOURS = {
    "star": "#D55E00",
    "mf": "#0072B2",
    "fc": "#009E73",
    "sghmc": "#CC79A7",
    "sgp": "#555555",
    "fc_mc": "#AA4499",
    "mf_ng": "#56B4E9",
    "fc_ng": "#44AA99",
    "mf_r10": "#56B4E9",
    "mf_lv": "#56B4E9",
    "mf_tight": "#009E73",
    "ppgpr": "#7FB800",
    "dspp": "#7FB800",
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
    "catboost": "#DDAA33",
    "xgboost_quantiles": "#BB5566",
    "conformal": "#004488",
    "deep_ensemble": "#332288",
    "mc_dropout": "#88CCEE",
    "gpflux_dgp": "#44AA99",
    "gpytorch_dgp": "#AA4499",
}
OTHERS = ("#E69F00", "#56B4E9", "#009E73", "#CC79A7", "#D55E00", "#0072B2", "#999999")
SHAPES = {1: ("s", ":"), 2: ("o", "--"), 3: ("D", "-"), 4: ("^", "-."), 5: ("v", (0, (5, 1, 1, 1, 1, 1)))}
GUEST_MARKERS = {1: "*", 2: "P"}
ARROWS = {  # at the low and the high end of an axis: text, direction of its offset, alignment
    ("x", 0): ("← {}", (1, 0), "left", "center"),
    ("x", 1): ("{} →", (-1, 0), "right", "center"),
    ("y", 0): ("↓ {}", (0, 1), "center", "bottom"),
    ("y", 1): ("↑ {}", (0, -1), "center", "top"),
}
ARROW_OFFSET, ARROW_LINE = 7, 9  # points: from the edge past the mark, and between rows of arrows
ARROW_LETTER = 0.065  # inches, an upper bound of the width of a letter in an arrow's text
PUBLISHED = "x"  # the marker of a published value: neither filled nor hollow
OTHER_CURVES = "other methods"
NAMES = {  # of methods not written in capitals
    "fully_factorised": "factorised",
    "mf_fixed_z": "MF fixed Z",
    "fc_mc": "FC-MC",
    "bayesian_ridge": "Bayesian ridge",
    "gradient_boosting_quantiles": "boosting (quantiles)",
    "ngboost": "NGBoost",
    "catboost": "CatBoost",
    "xgboost_quantiles": "XGBoost (quantiles)",
    "conformal": "conformal",
    "deep_ensemble": "deep ensemble",
    "mc_dropout": "MC dropout",
    "gpflux_dgp": "GPflux DGP",
    "gpytorch_dgp": "GPyTorch DGP",
}
HATCHES = {1: "", 2: "///", 3: "", 4: "...", 5: "xxx"}
# Units of dgpbench.predictive.scores as axes show them.
UNITS = {"nats": "nats per row", "units of y": "units of y", "share": "share of rows"}
AXES = {
    "elbo": "ELBO (nats, standardised y)",
    "win_frequency": "share of rows won",
    "tll_difference": "TLL difference (nats per row)",
    "num_parameters": "trainable parameters (count)",
}
STYLE = Path(__file__).parent.parent / "dgpbench.mplstyle"


@dataclass(frozen=True)
class Look:
    """Colour, marker, line and hatching of one method at one depth."""

    colour: str
    marker: str
    line: object
    hatch: str
    hollow: bool = False  # of an incomplete cell

    def of_line(self) -> dict:
        """Return the keyword arguments of ``ax.plot`` for a line."""
        return {"color": self.colour, "linestyle": self.line}

    def of_points(self) -> dict:
        """Return the keyword arguments of ``ax.plot`` for markers without a line."""
        face = {"markerfacecolor": "white"} if self.hollow else {}
        return {"color": self.colour, "marker": self.marker, "linestyle": "none", **face}


def look(method: str, num_layers: int) -> Look:
    """Return the look of a method at a depth; an unlisted method gets a colour by its name, and other markers."""
    colour = _listed_colour(method)
    marker, line = SHAPES.get(int(num_layers), SHAPES[5])
    if colour is None:
        colour, marker = OTHERS[sum(map(ord, method)) % len(OTHERS)], GUEST_MARKERS.get(int(num_layers), "X")
    return Look(colour, marker, line, HATCHES.get(int(num_layers), "xxx"))


def _listed_colour(method: str) -> str | None:
    return COLOURS.get(method) or COLOURS.get(method.split("_")[0])  # a series is named after its method: star_ng


def label(method: str, num_layers: int) -> str:
    """Name a method at a depth as legends and axes do: 'STAR L3'. An unlisted method keeps its name as it is."""
    if "_vs_" in method:
        first, second = (label(side, num_layers) for side in method.split("_vs_"))
        return f"{first.removesuffix(f' L{int(num_layers)}')} vs {second}"
    name = NAMES.get(method) or (method.upper().replace("_", " ") if _listed_colour(method) else method)
    return plain(name) + column_name(method, int(num_layers)).removeprefix(method)


def plain(text: str) -> str:
    """Escape a text for matplotlib, where a pair of dollars starts mathematics."""
    return str(text).replace("$", r"\$")


def entries(frame: pd.DataFrame) -> Iterator[tuple[str, Look, pd.DataFrame]]:
    """Yield (label, look, rows) of each method and depth, in the order of the frame.

    A cell is incomplete by the columns count and wanted, if the frame has them; it is hollow, and its label ends in
    '(6/10)'. Curves marked in a column ``behind`` are grey lines with a common entry in the legend.
    """
    others = iter([OTHER_CURVES])
    for (method, num_layers), rows in frame.groupby(["method", "num_layers"], sort=False):
        name, own, first = label(method, num_layers), look(method, num_layers), rows.iloc[0]
        if text := count_text(first):
            name, own = f"{name} ({text})", replace(own, hollow=True)
        if first.get("behind", False):
            name, own = next(others, f"_{name}"), Look("0.85", "none", "-", "")
        yield name, own, rows


def count_text(row: pd.Series) -> str:
    """Return '6/10' for an incomplete cell, else an empty text."""
    count, wanted = row.get("count", 0), row.get("wanted", 0)
    return f"{int(count)}/{int(wanted)}" if count < wanted else ""


def axis_label(metric: str) -> str:
    """Name a score's axis with its unit: 'test log-likelihood (nats per row)'."""
    words = {"tll": "test log-likelihood", "nlpp": "NLPP", "rmse": "RMSE", "crps": "CRPS"}
    if metric in AXES or metric not in METRICS:
        return AXES.get(metric, f"{metric.replace('_', ' ')} (s)")
    return f"{words.get(metric, metric.replace('_', ' '))} ({UNITS.get(unit := METRICS[metric].unit, unit)})"


def log_scale(ax: Axes, axis: str) -> None:
    """Set a logarithmic scale with few tick labels: 1, 2, 5 over few decades, powers of ten over many."""
    getattr(ax, f"set_{axis}scale")("log")
    one = getattr(ax, f"{axis}axis")
    low, high = sorted(getattr(ax, f"get_{axis}lim")())
    if high < 300 * low:
        one.set_major_locator(LogLocator(subs=(1, 2, 5)))
        one.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    one.set_minor_locator(NullLocator())  # the layout measures a label for each minor tick, too


def name_rows(ax: Axes, places: Iterable[float], names: Iterable[str]) -> None:
    """Show names on the y axis in place of numbers; unlike ``set_yticks`` this makes no tick before drawing."""
    ax.yaxis.set_major_locator(FixedLocator(list(places)))
    ax.yaxis.set_major_formatter(FixedFormatter(list(names)))


def row_lines(ax: Axes, rows: int) -> None:
    """Draw the y grid as lines of its own: they stay when the row names are removed."""
    look = {"colors": matplotlib.rcParams["grid.color"], "linewidths": matplotlib.rcParams["grid.linewidth"]}
    ax.yaxis.grid(visible=False)
    ax.hlines(range(rows), 0, 1, transform=ax.get_yaxis_transform(), zorder=0.5, **look)


def focus(ax: Axes, axis: str, marks: pd.DataFrame) -> None:
    """Limit an axis to most of its marks if a few outliers would flatten all others.

    Outliers lie beyond Tukey's outer fences, three interquartile ranges from the quartiles; they are left out if the
    axis is less than a third as long without them. Each is drawn at the edge, with an arrow and its value.

    :param axis: x or y, the axis of the values
    :param marks: columns value, spread (to either side), other (the place on the other axis), look, count (of an
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
    ends = (marks["value"][beyond] > highest).astype(int)
    counts = marks["count"][beyond]
    texts = marks["value"][beyond].map("{:.3g}".format) + counts.where(counts == "", " (" + counts + ")")
    lines = _lines_of_arrows(ax, marks["other"][beyond], ends, texts) if axis == "y" else ends * 0
    room = [max(0.12, 0.09 + 0.07 * (lines[ends == end].max() + 1)) * (high - low) for end in (0, 1)]
    getattr(ax, f"set_{axis}lim")(low - room[0], high + room[1])
    transform = ax.get_yaxis_transform() if axis == "x" else ax.get_xaxis_transform()
    for mark, value, end, line in zip(marks[beyond].to_dict("records"), texts, ends, lines, strict=True):
        text, direction, horizontal, vertical = ARROWS[axis, end]
        at, other = abs(end - 0.02), mark["other"]
        place = (at, other) if axis == "x" else (other, at)
        ax.plot(*place, transform=transform, zorder=4, markersize=5, **mark["look"].of_points())
        ax.annotate(
            text.format(value),
            (end, other) if axis == "x" else (other, end),
            tuple((ARROW_OFFSET + ARROW_LINE * line) * each for each in direction),
            xycoords=transform,
            textcoords="offset points",
            ha=horizontal,
            va=vertical,
            color=mark["look"].colour,
            fontsize="x-small",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},  # over its own bar
        )


def _lines_of_arrows(ax: Axes, places: pd.Series, ends: pd.Series, texts: pd.Series) -> pd.Series:
    """Assign each arrow to a line at its end of the y axis, 0 along the edge, so that no two texts overlap."""
    ax.get_xlim()  # updates the transform
    inches = ax.bbox.width / ax.figure.dpi  # before the layout, which widens axes
    middles = (ax.transScale + ax.transLimits).transform([(place, 1) for place in places])[:, 0] * inches
    halves = ARROW_LETTER * (2 + texts.str.len().to_numpy()) / 2
    taken: dict[tuple[int, int], float] = {}  # (end, line) -> inches in use
    lines = pd.Series(0, places.index)
    for one in np.argsort(middles - halves):
        end = ends.iloc[one]
        while taken.get((end, lines.iloc[one]), -np.inf) > middles[one] - halves[one]:
            lines.iloc[one] += 1
        taken[end, lines.iloc[one]] = middles[one] + halves[one]
    return lines


def house_style() -> AbstractContextManager[None]:
    """Apply ``dgpbench.mplstyle`` while a figure is drawn and saved."""
    return matplotlib.style.context(STYLE)
