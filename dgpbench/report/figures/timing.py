"""Seconds per gradient step against the sizes of a model (Lindinger et al. 2020, Figs. 4 and S7)."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes

from dgpbench.experiments.items import Item
from dgpbench.report import cells
from dgpbench.report.figures.page import WIDE, Panel
from dgpbench.report.figures.sources import NoRuns
from dgpbench.report.figures.style import entries, log_scale

SIZES = {
    "M": "inducing points M (count, each layer)",
    "L": "layers L (count)",
    "tau": "hidden GPs τ (count, each layer)",
}
ALONG = {"method.num_inducing": "M", "method.num_layers": "L", "method.width": "tau"}
COLUMNS = ("method", *SIZES, "ms_per_step")
ALIKE = ("data", "B", "R", "precision", "threads")  # the same for all timings of a figure
# Exponents of the leading term of a step, N M^2 tau^a L^b: the quadratic forms, one for each covariance block.
# In M all methods are quadratic until M^3 takes over.
EXPONENTS = {
    "mf": {"M": 2, "L": 1, "tau": 1},
    "star": {"M": 2, "L": 2, "tau": 1},
    "fc": {"M": 2, "L": 2, "tau": 2},
}


def seconds_per_step(item: Item, runs: pd.DataFrame) -> list[Panel]:
    """Time of a step along ``options.along`` (Figs. 4 and S7), from runs or else results/bench/*.csv."""
    methods = list(dict.fromkeys(cells.wanted(item)["series"]))
    bench = timings(runs, Path(item.results_dir, "bench"), methods)
    drawn = {ALONG[key]: along(bench, ALONG[key]) for key in item.options.get("along", ALONG)}
    return [Panel(f"against {size}", draw_seconds_per_step, frame, WIDE) for size, frame in drawn.items() if len(frame)]


def timings(runs: pd.DataFrame, folder: Path, methods: Sequence[str]) -> pd.DataFrame:
    """Return milliseconds per step with the sizes of the model.

    They are of the runs, or else of the tables that ``bench steps`` has written to a folder: rows of these methods, at
    the most frequent batch, precision, threads and device.

    :raises UserError: if there is neither
    """
    if len(runs):
        sizes = [
            {"M": config["method"]["num_inducing"], "L": depth, "tau": config["method"]["width"]}
            for config, depth in zip(runs["config"], runs["num_layers"], strict=True)
        ]
        numbers = pd.DataFrame(sizes).apply(pd.to_numeric, errors="coerce")
        milliseconds = 1000 * runs["seconds_training"] / runs["iterations"]
        return numbers.assign(method=list(runs["series"]), ms_per_step=list(milliseconds))
    tables = [pd.read_csv(path) for path in sorted(folder.glob("*.csv"))]
    tables = [bench for bench in tables if {"code", *ALIKE, *COLUMNS} <= set(bench)]  # not another kind of table
    tables = [
        bench.assign(optimiser=bench.get("optimiser", "adam"), device=bench.get("device", "cpu")) for bench in tables
    ]
    for bench in tables:
        bench.loc[bench["optimiser"] == "natgrad_adam", "method"] += "_ng"
    ours = [bench[(bench["code"] == "dgpbench") & bench["ms_per_step"].notna()] for bench in tables]
    of_methods = [[rows[rows["method"] == method] for rows in ours] for method in methods]
    # The longest table of a method: a curve is of one session, since machines differ by the hour.
    longest = [max(parts, key=len) for parts in of_methods if any(map(len, parts))]
    if not longest:
        names = ",".join(dict.fromkeys(method.removesuffix("_ng") for method in methods))
        raise NoRuns(
            f"no run of this item is done, and {folder} has no timings of {','.join(methods)}; "
            f"`dgpbench bench steps methods={names} M=64,128,256 --output {folder / 'steps.csv'}` makes some"
        )
    rows = pd.concat(longest, ignore_index=True)
    for key in [key for key in (*ALIKE, "device", "cpu") if key in rows]:
        rows = rows[rows[key] == rows[key].mode().iloc[0]]
    return rows


def along(bench: pd.DataFrame, size: str) -> pd.DataFrame:
    """Select the timings with one varying size (M, L or tau) and the most frequent values of the others.

    Columns: method, num_layers, size, value, ms_per_step, exponent (NaN without a theoretical one).

    :param bench: columns ``COLUMNS``
    """
    fixed = bench
    for other in SIZES.keys() - {size}:
        if bench[other].notna().any():  # a width of 'inputs' is not a number
            fixed = fixed[fixed[other] == bench[other].mode().iloc[0]]
    mean = fixed.groupby(["method", size], sort=False, as_index=False)["ms_per_step"].mean()
    mean = mean.rename(columns={size: "value"}).sort_values("value")
    # fc_ng and fc_mc cost what FC costs to leading order.
    exponents = [EXPONENTS.get(method.split("_")[0], {}).get(size, float("nan")) for method in mean["method"]]
    return mean.assign(num_layers=3, size=size, exponent=exponents)


def draw_seconds_per_step(frame: pd.DataFrame, ax: Axes) -> None:
    """Draw ``along`` on log axes; dashed lines have the theoretical slope, through the largest size."""
    for _, look, rows in entries(frame):
        name, exponent = rows["method"].iloc[0].upper().replace("_", "-"), rows["exponent"].iloc[0]
        slope = "" if pd.isna(exponent) or len(rows) < 2 else f" (slope {exponent:g})"
        seconds = rows["ms_per_step"] / 1000
        ax.plot(rows["value"], seconds, color=look.colour, marker=look.marker, label=f"{name}{slope}")
        if slope:
            theory = seconds.iloc[-1] * (rows["value"] / rows["value"].iloc[-1]) ** exponent
            ax.plot(rows["value"], theory, color=look.colour, linestyle="--", linewidth=0.8)
    log_scale(ax, "x")
    log_scale(ax, "y")
    values = sorted(frame["value"].unique())
    ax.set_xticks(values, [f"{value:g}" for value in values])
    ax.set_xticks([], minor=True)
    ax.set(xlabel=SIZES[frame["size"].iloc[0]], ylabel="time of a gradient step (s)")
    if any("slope" in str(line.get_label()) for line in ax.lines):
        ax.plot([], [], color="0.4", linestyle="--", linewidth=0.8, label="slope in theory")
