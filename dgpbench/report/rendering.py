"""Grids of texts as Markdown, LaTeX or HTML, for tables and comparisons."""

import html
import re

import pandas as pd
from tabulate import tabulate

FORMATS = ("md", "tex", "csv", "html")
DECORATIONS = {
    "md": {"": "{}", "bold": "**{}**", "italic": "*{}*", "bold underlined": "<u>**{}**</u>"},
    "tex": {
        "": "{}",
        "bold": "\\textbf{{{}}}",
        "italic": "\\textit{{{}}}",
        "bold underlined": "\\underline{{\\textbf{{{}}}}}",
    },
    "html": {"": "{}", "bold": "<b>{}</b>", "italic": "<i>{}</i>", "bold underlined": "<u><b>{}</b></u>"},
}
_TEX = {"\\": r"\textbackslash{}", "_": r"\_", "%": r"\%", "&": r"\&", "#": r"\#", "$": r"\$", "{": r"\{", "}": r"\}"}


def escape(text: str, form: str) -> str:
    """Escape a plain text for a format."""
    if form == "tex":
        return re.sub(r"[\\_%&#${}]", lambda match: _TEX[match.group()], text)
    return html.escape(text, quote=False) if form == "html" else text


def grid_text(grid: pd.DataFrame, form: str, corner: str) -> str:
    """Format a grid of decorated cells; its labels are escaped here.

    :param corner: the title of the column of row labels
    """
    style = {"md": "pipe", "tex": "latex_raw", "html": "unsafehtml"}[form]
    headers = [escape(str(name), form) for name in (corner, *grid.columns)]
    rows = [[escape(str(label), form), *cells] for label, cells in zip(grid.index, grid.to_numpy(), strict=True)]
    align = ("left", *["right"] * grid.shape[1])
    return tabulate(rows, headers=headers, tablefmt=style, disable_numparse=True, colalign=align if rows else None)


def document(title: str, parts: list[tuple[str, str]], notes: list[str], form: str) -> str:
    """Join title, (heading, grid) parts and notes into one text."""
    if form == "tex":
        lines = [f"% {title}", *(f"% {heading}\n{grid}" for heading, grid in parts), *(f"% {note}" for note in notes)]
        return "\n".join(lines) + "\n"
    if form == "html":
        body = [
            f"<h2>{escape(title, form)}</h2>",
            *(f"<h3>{escape(heading, form)}</h3>\n{grid}" for heading, grid in parts),
        ]
        return "\n".join([*body, *(f"<p>{escape(note, form)}</p>" for note in notes)]) + "\n"
    body = [
        f"## {title}",
        *(f"### {heading}\n\n{grid}" for heading, grid in parts),
        "\n".join(f"- {note}" for note in notes),
    ]
    return "\n\n".join(body) + "\n"
