"""The report: one HTML file that needs nothing else, no network and no script but a few lines of its own.

Every text that comes from a record or a file goes through the template's autoescape; the only markup that is handed to
it as such are figures that matplotlib wrote, which escapes the names in them itself.
"""

import io
import os
import re
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from urllib.parse import quote

import pandas as pd
from matplotlib.figure import Figure

from dgpbench import __version__
from dgpbench.config import groups
from dgpbench.errors import Refused
from dgpbench.experiments.items import Item, load
from dgpbench.report import cells, sections
from dgpbench.report.collect import collect
from dgpbench.report.figures import render
from dgpbench.report.figures.style import house_style
from dgpbench.runs import store
from dgpbench.system import files

TEMPLATES = Path(__file__).with_name("templates")
MANY = 8  # sections: fewer take less time than processes take to start


def write_report(results_dir: str | Path, output: str | Path, workers: int = 1) -> Path:
    """Write the report of a results folder.

    :param workers: processes that share the sections of a long report
    :raises Refused: where there is no record to report, or the file cannot be written
    """
    output = Path(output)
    frame = collect(results_dir)
    if frame.empty:
        raise Refused(f"{results_dir} holds no records; `dgpbench run` or `dgpbench reproduce` makes them")
    text = page(frame, str(results_dir), output.parent, workers)
    with files.replacing(output) as partial:
        partial.write_text(text, encoding="utf-8")
    return output


def page(frame: pd.DataFrame, results_dir: str, folder: Path, workers: int) -> str:
    """The report's HTML; links to records are relative to ``folder``, where it will lie."""
    problems = frame.attrs.get("problems", [])
    frame = sections.with_groups(frame)
    frame.attrs.clear()  # pandas would copy them with every selection
    items = _sections([(*each, results_dir, number) for number, each in enumerate(covered(frame), 1)], workers)
    rows = sections.run_rows(frame)
    for row in rows:
        row["link"] = quote(os.path.relpath(_record_of(row["path"]), folder or "."))
    return (
        _environment()
        .get_template("report.html.j2")
        .render(
            items=items,
            overview=sections.dataset_grids(frame),
            runs=rows,
            statuses=frame["status"].value_counts().to_dict(),
            problems=problems,
            version=__version__,
        )
    )


def _record_of(path: str) -> Path:
    """The file with a run's record: its own, or the compact records that it is a line of."""
    return Path(path, store.RECORD) if os.path.isdir(path) else Path(path.rpartition(":")[0])


def _environment():
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def covered(frame: pd.DataFrame) -> list[tuple[Item, list[str], pd.DataFrame]]:
    """Everything published that at least one done run belongs to: the item at a budget, what narrows it, its runs."""
    budgets = [name for name in groups.names("budget") if name in set(frame["budget"])]
    items = [(load(name, each), each) for name in groups.names("experiment") for each in _narrowed(name, budgets)]
    found = [(item, each, frame[frame["key"].isin(cells.select(item, frame)["key"])]) for item, each in items]
    return [(item, each, runs) for item, each, runs in found if (runs["status"] == "done").any()]


def _narrowed(name: str, budgets: list[str]) -> list[list[str]]:
    """What narrows an item to each budget; its own needs no word."""
    own = load(name, []).budget
    return [[] if budget == own else [f"budget={budget}"] for budget in budgets]


def _sections(items: list[tuple], workers: int) -> list[sections.Section]:
    """The section of each item, by several processes where there are many."""
    if workers < 2 or len(items) < MANY:
        return [_section(*each) for each in items]
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        return list(pool.map(_section, *zip(*items, strict=True)))


def _section(item: Item, given: list[str], runs: pd.DataFrame, results_dir: str, number: int) -> sections.Section:
    section = sections.item_section(item, given, runs)
    item = replace(item, results_dir=str(results_dir))
    try:
        made = render.figures(item, runs)
        for place, (title, figure) in enumerate(made.items(), 1):
            section.figures.append((title, svg(figure, f"f{number}-{place}-")))
    except Refused as refusal:
        section.notes.append(f"No figure: {refusal}.")
    return section


def svg(figure: Figure, prefix: str) -> str:
    """A figure as inline SVG: no header, no metadata, and ids that no other figure on the page has."""
    from markupsafe import Markup

    buffer = io.StringIO()
    with house_style():
        if engine := figure.get_layout_engine():  # laid out once: savefig would draw everything once more for it
            engine.execute(figure)
            figure.set_layout_engine("none")
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{prefix}", text)
    return Markup(text)  # matplotlib has escaped what it wrote
