"""The papers that conf/references.yaml has, as text and as BibTeX."""

from functools import cache
from typing import Any

import yaml

from dgpbench.config import groups


def text(key: str) -> str:
    """'Salimbeni & Deisenroth (2017), Doubly stochastic ..., Advances in ...'; what is no key as it stands."""
    if key not in _papers():
        return key
    paper = _papers()[key]
    names = [author.split(" ")[0] for author in paper["authors"]]
    who = f"{names[0]} et al." if len(names) > 3 else " & ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
    return f"{who} ({paper['year']}), {paper['title']}, {paper['venue']}"


def bibtex(key: str) -> str:
    """An entry that LaTeX takes; nothing of what is no key."""
    if key not in _papers():
        return ""
    paper = _papers()[key]
    family_first = [", ".join(author.split(" ", 1)) for author in paper["authors"]]
    kind, where = _kind(paper["venue"])
    fields: dict[str, Any] = {
        "title": f"{{{paper['title']}}}",
        "author": " and ".join(family_first),
        where: paper["venue"].removeprefix("MSc thesis, "),
        "year": paper["year"],
    }
    if "arxiv" in paper:
        fields |= {"eprint": paper["arxiv"], "archiveprefix": "arXiv", "doi": f"10.48550/arXiv.{paper['arxiv']}"}
    lines = "".join(f"  {name} = {{{value}}},\n" for name, value in fields.items())
    return f"@{kind}{{{key},\n{lines}}}"


def _kind(venue: str) -> tuple[str, str]:
    if venue.startswith("MSc thesis"):
        return "mastersthesis", "school"
    return ("book", "publisher") if venue.endswith("Press") else ("inproceedings", "booktitle")


@cache
def _papers() -> dict[str, Any]:
    return yaml.safe_load((groups.folder() / "references.yaml").read_text(encoding="utf-8"))
