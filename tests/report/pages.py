"""The tables of a report's page, as a reader without a browser sees them."""

import gzip
import html.parser
import json
import re
from base64 import b64decode
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Seen:
    """One cell: its text and its sort key."""

    text: str = ""
    order: str = ""


@dataclass
class _Tables(html.parser.HTMLParser):
    """The rows of every table, by caption or id."""

    tables: dict[str, list[list[Seen]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__init__()
        self._rows: list[list[Seen]] = []
        self._caption, self._where = "", ""

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if tag == "table":
            self._rows, self._caption = [], given.get("id") or ""
        elif tag == "tr":
            self._rows.append([])
        elif tag in ("td", "th"):
            self._rows[-1].append(Seen(order=given.get("data-order") or ""))
        self._where = tag if tag in ("td", "th", "caption") else self._where

    def handle_endtag(self, tag):
        if tag == "table":
            self.tables.setdefault(self._caption.strip(), self._rows)
        self._where = "" if tag in ("td", "th", "caption") else self._where

    def handle_data(self, data):
        if self._where == "caption":
            self._caption += data
        elif self._where:
            self._rows[-1][-1].text += data.strip()


def cells_in(page: str) -> dict[str, list[list[Seen]]]:
    """Each table's rows of cells, the heading first; of several with one caption the first."""
    parser = _Tables()
    parser.feed(page)
    return parser.tables


def tables_in(page: str) -> dict[str, list[list[str]]]:
    """Each table's rows of texts."""
    return {name: [[cell.text for cell in row] for row in rows] for name, rows in cells_in(page).items()}


def data_in(page: str) -> dict[str, Any]:
    """The data of the page's script."""
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page).group(1))


def scores_in(page: str, metric: str) -> dict[tuple[str, str], str]:
    """Each score on the leaderboard as a text, by method and data set."""
    groups = [each for each in data_in(page)["groups"].values() if "scores" in each]
    return {
        (f"{each['method']} {each['changed']}".strip(), each["dataset"]): each["scores"][metric][2] for each in groups
    }


def runs_in(page: str) -> list[dict[str, Any]]:
    """Every run in the list of runs."""
    data = data_in(page)
    keys = ("group", "split", "status", "reason", "seconds", "hash", "commit", "record", "scores")
    runs = [dict(zip(keys, run, strict=True)) for run in data["runs"]]
    return [data["groups"][run["group"]] | run for run in runs]


def figures_in(page: str) -> list[str]:
    """The figures that the page unpacks, as SVG."""
    packed = re.findall(r'<script type="text/plain" class="packed">(.*?)</script>', page)
    return [gzip.decompress(b64decode(text)).decode() for text in packed]
