"""The report: one HTML file without other files or network access: a leaderboard, every item, and every run.

The template escapes every text from a record or file; figures alone are markup: matplotlib escapes the names in them.
The script of the page draws the leaderboard and the list of runs; DataTables, from the package itables, sorts tables.
"""

import gc
import gzip
import io
import re
from base64 import b64encode
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from importlib.resources import files as resources
from multiprocessing import forkserver, get_context
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from dgpbench import __version__
from dgpbench.config import groups
from dgpbench.errors import UserError
from dgpbench.experiments.items import Item, load
from dgpbench.methods.plugins import load as load_plugin
from dgpbench.methods.plugins import loaded
from dgpbench.report import cells, html_grids, leaderboard, published, tables
from dgpbench.report.collect import collect
from dgpbench.report.compare import of_cells
from dgpbench.report.figures.item_figures import figures
from dgpbench.report.figures.style import house_style
from dgpbench.system import files

IMPORTED = [__name__, "scipy.stats"]  # modules that sections need
MANY = 200  # records: sections of fewer take less time than the start of processes

_kept: pd.DataFrame  # the records, in worker processes only


@dataclass
class Section:
    """An item at one budget: its grids, its figures as (title, packed SVG), and notes on what is missing.

    :param finding: how many published cells are redone and agree; empty if the paper prints no numbers
    """

    anchor: str
    title: str
    subtitle: str
    finding: str = ""
    grids: list[html_grids.Grid] = field(default_factory=list)
    figures: list[tuple[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def write_report(results_dir: str | Path, output: str | Path, workers: int = 1) -> Path:
    """Write the report of a results folder.

    :param workers: processes that share the sections of a long report
    :raises UserError: if there is no record to report, or the file cannot be written
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
    """Return the report's HTML; links to records are relative to ``folder``, the place of the report."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    problems = frame.attrs["problems"]
    frame = html_grids.with_groups(frame)
    frame.attrs.clear()  # pandas would copy them with every selection
    items = [section for section in _sections(frame, results_dir, workers) if section]
    loader = FileSystemLoader(Path(__file__).with_name("templates"))
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("report.html.j2").render(
        items=items,
        own=html_grids.own_table_grids(frame),
        data=leaderboard.page_data(frame, results_dir, folder),
        timed=cells.timed_sentence(frame[frame["status"] == "done"]),
        statuses=frame["status"].value_counts().to_dict(),
        library=packed(resources("itables").joinpath("html/dt_bundle.js").read_text(encoding="utf-8")),
        problems=problems,
        version=__version__,
    )


def packed(text: str) -> str:
    """Compress a text that the page unpacks when it needs it: a third of the bytes of a report are figures."""
    return b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def _sections(frame: pd.DataFrame, results_dir: str, workers: int) -> list[Section | None]:
    """Return the section of each item with a done run, made by several processes if there are many records."""
    jobs = ((item, f"f{number}-", results_dir) for number, item in enumerate(_item_budgets(frame)))
    if workers < 2 or len(frame) < MANY:
        return [_section(frame, *job) for job in jobs]
    with TemporaryDirectory() as folder:
        records = Path(folder, "records")
        frame.to_pickle(records)  # a pipe would block this process until a worker has imported everything
        given = (records, loaded())
        with ProcessPoolExecutor(workers, get_context(_start_method()), initializer=_keep, initargs=given) as pool:
            started = [pool.submit(_section, None, *job) for job in jobs]  # lazily: the first starts at once
            return [each.result() for each in started]


def _item_budgets(frame: pd.DataFrame) -> Iterator[Item]:
    """Yield every item at every budget of the records; its own budget is no override, which its notes would name."""
    for name in groups.names("experiment"):
        own = load(name).budget
        for budget in sorted(set(groups.names("budget")) & set(frame["budget"])):
            yield load(name, [] if budget == own else [f"budget={budget}"])


def _start_method() -> str:
    """Start workers as copies of a process with all imports, unless its socket cannot be made."""
    forkserver.set_forkserver_preload(IMPORTED)
    try:
        forkserver.ensure_running()
    except OSError:  # the path of the socket, in the temporary folder, is limited to some 100 characters
        return "spawn"
    return "forkserver"


def _keep(records: Path, plugins: list[str]) -> None:
    """Load the plug-ins and the records in a worker: once, not with every item."""
    global _kept
    for location in plugins:
        load_plugin(location)
    _kept = pd.read_pickle(records)
    gc.disable()  # collecting the garbage of figures takes longer than it is worth


def _section(frame: pd.DataFrame | None, item: Item, prefix: str, folder: str) -> Section | None:
    """Return the section of an item at one budget, None without a done run.

    :param frame: the records; None for those that this worker keeps
    :param prefix: of the ids in its figures
    """
    if frame is None:
        frame = _kept
        gc.freeze()  # a library that starts a collection need not traverse the records and earlier sections
    frame = cells.within_reach(item, frame)
    runs = cells.select(item, frame)
    if not (runs["status"] == "done").any():
        return None
    section = item_section(item, frame)  # highlight rules may look at runs of another task
    item = replace(item, results_dir=folder)
    try:
        for place, (title, figure) in enumerate(figures(item, runs).items(), 1):
            section.figures.append((title, packed(svg(figure, f"{prefix}{place}-"))))
    except UserError as refusal:
        section.notes.append(f"No figure: {refusal}.")
    return section


def item_section(item: Item, frame: pd.DataFrame) -> Section:
    """Return the section of an item at one budget, without figures."""
    subtitle = f"{item.name}, protocol {item.protocol}, budget {item.budget}"
    section = Section(f"{item.name}-{item.budget}", item.title, subtitle)
    if not item.blocks:
        return section
    made = tables.of_item(item, frame)
    section.grids += html_grids.score_grids(made)
    section.grids += html_grids.statistics_grids(item, made.runs, section.notes)
    if published.of_item(item.name):
        compared = of_cells(item, made.cells, made.runs, frame)
        section.finding = compared.sentence
        section.grids.append(html_grids.comparison_grid(compared))
    return section


def svg(figure: Figure, prefix: str) -> str:
    """Return a figure as inline SVG: without header and metadata, and with ids that are unique on the page."""
    buffer = io.StringIO()
    with house_style():
        canvas = FigureCanvasSVG(figure)
        if engine := figure.get_layout_engine():  # laid out here: savefig would draw everything once more
            engine.execute(figure)
            figure.set_layout_engine("none")
        canvas.print_svg(buffer, metadata={"Date": None})
    text = buffer.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    return re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{prefix}", text)
