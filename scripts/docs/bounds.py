"""Lindinger et al.'s Fig. S5 (docs/results): the bounds of mean field and STAR on the same splits."""

from pathlib import PurePosixPath

import pandas as pd

from dgpbench.config import groups
from dgpbench.experiments.items import Item, load
from dgpbench.report import cells
from dgpbench.report.cells import done_runs
from dgpbench.report.figures.page import Panel
from dgpbench.report.figures.scores import draw_elbo_boxes
from dgpbench.report.tables import grid_text
from scripts.docs import words
from scripts.docs.pictures import Picture
from scripts.docs.results import budget_in_words

ITEM = "lindinger2020_figs5"
PICTURE = PurePosixPath(f"docs/images/{ITEM}.png")
NOTHING = "No run of both methods on the same split has been made yet."
COLUMNS = 4  # of panels
# From laptop's own start, the published one, C and the bound have not converged after 2,000 iterations.
OF_LAPTOP = (
    "method.hidden_scale=0.1",
    "training.batch_size=2560",
    "training.num_samples=null",
    "training.average_last=0",
)


def text(frame: pd.DataFrame) -> str:
    """Return the mean difference of the bounds on each data set, and the picture."""
    item, runs = _paired(frame)
    if runs.empty:
        return NOTHING
    lines = {name: _line(rows) for name, rows in runs.groupby("dataset", sort=False)}
    return "\n\n".join(
        [
            f"**{item.title}**, {budget_in_words(item)}{_with(item)}, protocol {item.protocol}, "
            f"{words.splits_in_words(runs['split'])}; final ELBO in nats, of standardised y.",
            grid_text(pd.DataFrame.from_dict(lines, orient="index"), "md", "data set"),
            "Means over splits; the difference ± its standard error; and the splits on which STAR is higher.",
            f"![The ELBO of every split as box plots](../images/{PICTURE.name})",
        ]
    )


def picture(frame: pd.DataFrame) -> Picture | None:
    """Return the boxes of the same runs."""
    item, runs = _paired(frame)
    # Without paths the picture is the same everywhere.
    drawn = runs[["dataset", "method", "num_layers", "split", "elbo", "count", "wanted"]]
    panels = [Panel(name, draw_elbo_boxes, rows) for name, rows in drawn.groupby("dataset", sort=False)]
    title = f"{item.title}\nprotocol {item.protocol}, budget {item.budget}{_with(item)}".replace("`", "")
    return Picture(title, panels, COLUMNS) if panels else None


def _paired(frame: pd.DataFrame) -> tuple[Item, pd.DataFrame]:
    """Return the item at the budget with the most runs, and its runs on the splits with both methods."""
    found = []
    for budget in groups.names("budget"):
        item = load(ITEM, [f"budget={budget}", *(OF_LAPTOP if budget == "laptop" else ())])
        found.append((item, _of_both(done_runs(item, frame))))
    return max(found, key=lambda each: len(each[1]))


def _with(item: Item) -> str:
    """Describe the overrides of an item."""
    settings = [text for text in item.narrowed if not text.startswith("budget=")]
    return f", `{' '.join(settings)}`" if settings else ""


def _of_both(runs: pd.DataFrame) -> pd.DataFrame:
    runs = runs.assign(elbo=cells.value_of("elbo", runs)).dropna(subset="elbo")
    both = runs[runs.groupby(["dataset", "split"])["series"].transform("nunique") == 2]
    return both.assign(count=both.groupby(cells.KEYS)["split"].transform("size"))


def _line(rows: pd.DataFrame) -> dict[str, str]:
    wide = rows.pivot(index="split", columns="series", values="elbo")
    difference = wide["star"] - wide["mf"]
    error = f" ± {difference.sem():.1f}" if len(wide) > 1 else ""
    return {
        "mf L3": f"{wide['mf'].mean():,.1f}",
        "star L3": f"{wide['star'].mean():,.1f}",
        "star - mf": f"{difference.mean():+,.1f}{error}",
        "star higher": f"{int((difference > 0).sum())}/{len(wide)}",
    }
