"""The report: one HTML file that needs nothing else, no network and no script but a few lines of its own.

Every text that comes from a record or a file goes through the template's autoescape; the only markup that is handed to
it as such are figures that matplotlib wrote, which escapes the names in them itself.
"""

import gc
import io
import os
import re
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import forkserver, get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote

import pandas as pd
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from dgpbench import __version__
from dgpbench.config import groups
from dgpbench.errors import UserError
from dgpbench.experiments.items import Item, load
from dgpbench.methods.plugins import load as load_plugin
from dgpbench.methods.plugins import loaded
from dgpbench.report import cells, comparisons, sections
from dgpbench.report.collect import collect
from dgpbench.report.figures import render
from dgpbench.report.figures.style import house_style
from dgpbench.runs import store
from dgpbench.system import files

TEMPLATES = Path(__file__).with_name("templates")
IMPORTED = [__name__, "scipy.stats"]  # what sections need
MANY = 200  # records: the sections of fewer take less time than processes take to start

_kept: pd.DataFrame  # the records, in a worker process alone


def write_report(results_dir: str | Path, output: str | Path, workers: int = 1) -> Path:
    """Write the report of a results folder.

    :param workers: processes that share the sections of a long report
    :raises UserError: where there is no record to report, or the file cannot be written
    """
    output = Path(output)
    if workers > 1:
        _start_method()  # another core imports while this one reads
    frame = collect(results_dir, required=True)
    if frame.empty:
        raise UserError(f"{results_dir} holds no records; `dgpbench run` or `dgpbench reproduce` makes them")
    text = page(frame, str(results_dir), output.parent, workers)
    with files.replacing(output, files.ANOTHER_OUTPUT) as partial:
        partial.write_text(text, encoding="utf-8")
    return output


def page(frame: pd.DataFrame, results_dir: str, folder: Path, workers: int) -> str:
    """The report's HTML; links to records are relative to ``folder``, where it will lie."""
    problems = frame.attrs.get("problems", [])
    frame = sections.with_groups(frame)
    frame.attrs.clear()  # pandas would copy them with every selection
    items = [section for section in _sections(frame, results_dir, workers) if section]
    rows = sections.run_rows(frame)
    for row in rows:
        row["link"] = quote(os.path.relpath(_record_of(row["path"]), folder or "."))
    return (
        _environment()
        .get_template("report.html.j2")
        .render(
            items=items,
            overview=[*comparisons.own_table_grids(frame), *sections.dataset_grids(frame)],
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


def _asked(frame: pd.DataFrame) -> Iterator[tuple[Item, list[str]]]:
    """Every item at every budget that records have, and what narrows it to that budget; its own needs no word."""
    budgets = [name for name in groups.names("budget") if name in set(frame["budget"])]
    for name in groups.names("experiment"):
        own = load(name, []).budget
        for budget in budgets:
            given = [] if budget == own else [f"budget={budget}"]
            yield load(name, given), given


def _sections(frame: pd.DataFrame, results_dir: str, workers: int) -> list[sections.Section | None]:
    """The section of each item that a done run belongs to, by several processes where there are many records."""
    asked = ((*each, f"f{number}-", results_dir) for number, each in enumerate(_asked(frame)))
    if workers < 2 or len(frame) < MANY:
        return [_section(frame, *each) for each in asked]
    with TemporaryDirectory() as folder:
        records = Path(folder, "records")
        frame.to_pickle(records)  # a pipe would hold this process until a worker has imported all and reads
        given = (records, loaded())
        with ProcessPoolExecutor(workers, get_context(_start_method()), initializer=_keep, initargs=given) as pool:
            started = [pool.submit(_section_of_kept, *each) for each in asked]  # the first while later items are read
            return [each.result() for each in started]


def _start_method() -> str:
    """How workers begin: as copies of a process that has imported what all need, unless its socket cannot be made."""
    forkserver.set_forkserver_preload(IMPORTED)
    try:
        forkserver.ensure_running()
    except OSError:  # the socket lies in the temporary folder, and its path may have some 100 characters
        return "spawn"
    return "forkserver"


def _keep(records: Path, plugins: list[str]) -> None:
    """In a worker: the records, which are read once and not sent with every item; and the plug-ins that items list."""
    global _kept
    for location in plugins:
        load_plugin(location)
    _kept = pd.read_pickle(records)
    gc.disable()  # what figures leave behind is little beside the time to look for it
    gc.freeze()  # and a library that asks for a collection all the same need not walk through the records


def _section_of_kept(*asked: Any) -> sections.Section | None:
    section = _section(_kept, *asked)
    gc.freeze()  # nor through what this section leaves behind
    return section


def _section(
    frame: pd.DataFrame, item: Item, given: list[str], prefix: str, results_dir: str
) -> sections.Section | None:
    frame = cells.within_reach(item, frame)
    runs = cells.select(item, frame)
    if not (runs["status"] == "done").any():
        return None
    section = sections.item_section(item, given, frame)  # marks may look at runs of another task
    item = replace(item, results_dir=str(results_dir))
    try:
        made = render.figures(item, runs)
        for place, (title, figure) in enumerate(made.items(), 1):
            section.figures.append((title, svg(figure, f"{prefix}{place}-")))
    except UserError as refusal:
        section.notes.append(f"No figure: {refusal}.")
    return section


def svg(figure: Figure, prefix: str) -> str:
    """A figure as inline SVG: no header, no metadata, and ids that no other figure on the page has."""
    from markupsafe import Markup

    buffer = io.StringIO()
    with house_style():
        canvas = FigureCanvasSVG(figure)
        if engine := figure.get_layout_engine():  # laid out here: savefig would draw everything once more for it
            engine.execute(figure)
            figure.set_layout_engine("none")
        canvas.print_svg(buffer, metadata={"Date": None})
    text = buffer.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{prefix}", text)
    return Markup(text)  # matplotlib has escaped what it wrote
