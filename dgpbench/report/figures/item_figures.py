"""The figures of an item, from its records to pages."""

from collections.abc import Callable

import pandas as pd
from matplotlib.figure import Figure

from dgpbench.errors import UserError
from dgpbench.experiments.items import Item
from dgpbench.report import cells
from dgpbench.report.figures import calibration, posterior, predictions, scores, timing, training
from dgpbench.report.figures.page import Panel, page
from dgpbench.report.figures.sources import NoRuns
from dgpbench.system.progress import counted

# Kinds of figures by the name that ``figure:`` and ``options.also`` of an item take: from the item and its done runs,
# as ``cells.done_runs`` returns them, to panels.
KINDS: dict[str, Callable[[Item, pd.DataFrame], list[Panel]]] = {
    kind.__name__: kind
    for kind in (
        *(calibration.calibration_study, calibration.reliability_curves),
        *(posterior.covariance, posterior.block_correlations, posterior.normality),
        *(predictions.predictive_samples, predictions.predictive_histograms, predictions.layer_histograms),
        *(scores.score_bars, scores.elbo_boxes, scores.score_against_seconds, scores.score_beside_seconds),
        timing.seconds_per_step,
        *(training.elbo_against_seconds, training.training_curves),
    )
}


def figures(item: Item, frame: pd.DataFrame) -> dict[str, Figure]:
    """Return an item's figures by name: its own, or for a table the scores and ranks; and those of ``options.also``.

    :param frame: all records, as ``collect`` returns them
    :raises UserError: if there is nothing to draw
    """
    done = cells.done_runs(item, frame)
    name = item.figure or "score_bars"
    if done.empty and name != "seconds_per_step":
        elsewhere = cells.done_elsewhere(item, done, frame)
        raise NoRuns(
            f"no run of {item.name} at budget={item.budget} is done; "
            f"`dgpbench reproduce {item.name} budget={item.budget}` makes them"
            + (f"; {elsewhere}" if elsewhere else "")
        )
    panels = panels_of(name, item, done)
    if not panels:
        raise UserError(f"the done runs of {item.name} have nothing to draw as {name}")
    total = cells.num_runs(item)
    state = f"{len(done)} of {total} runs" if len(done) < total else counted(total, "run")
    state = "timings of bench steps" if done.empty else state

    def drawn(kind: str) -> str:  # the second line of a title, and a third one for seconds
        timed = cells.timed_sentence(done) if "seconds" in kind else None
        return "\n".join(filter(None, [_which_runs(item, state), timed]))

    pages = {name: page(f"{item.title}\n{drawn(name)}", panels)}
    whole = item.title if item.kind == "table" else item.title.partition(": ")[0]  # a figure's ends in what it shows
    for more in item.options.get("also", []):
        if panels := panels_of(more, item, done):
            pages[more] = page(f"{whole}: {more.replace('_', ' ')}\n{drawn(more)}", panels)
    if name == "score_bars":
        for key, (about, panel) in scores.rank_panels(item, done).items():
            what, _, metric = key.partition("_")
            words = "critical differences of mean ranks" if what == "ranks" else "best mean rank against the others"
            pages[key] = page(f"{item.title}\n{words}, {metric}, {_which_runs(item)}", [panel], 1, about)
    return pages


def panels_of(kind: str, item: Item, done: pd.DataFrame) -> list[Panel]:
    """Return the panels of one kind; those of seconds leave out the runs on a GPU unless all are."""
    if kind not in KINDS:
        raise UserError(f"figure '{kind}' of {item.name} is unknown; available: {', '.join(KINDS)}")
    return KINDS[kind](item, cells.timed_alike(done) if "seconds" in kind else done)


def _which_runs(item: Item, *state: str) -> str:
    """Describe the runs that are drawn."""
    overrides = [text for text in item.narrowed if not text.startswith(("budget=", "protocol="))]
    return ", ".join([item.protocol, f"budget {item.budget}", *state, *overrides])
