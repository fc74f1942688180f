"""The papers and data sets in conf/references.yaml, as text and as BibTeX."""

from functools import cache
from typing import Any

import yaml

from dgpbench.config import groups

VENUES = ("booktitle", "journal", "school", "publisher", "howpublished")


def text(key: str) -> str:
    """'Salimbeni & Deisenroth (2017), Doubly stochastic ..., Advances in ...'; an unknown key as it is."""
    if key not in _entries():
        return key
    entry = _entries()[key]
    names = [author.partition(", ")[0].strip("{}") for author in entry["author"].split(" and ")]
    who = f"{names[0]} et al." if len(names) > 3 else " & ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
    venue = next(entry[name] for name in VENUES if name in entry)
    return f"{who} ({entry['year']}), {entry['title']}, {venue}"


def bibtex(key: str, name: str, title: str) -> str:
    """An entry for BibTeX; for an unknown key, one with a name and a title of its own, and the key as a note."""
    if key not in _entries():
        key, entry = name, {"type": "misc", "title": title} | ({"note": key} if key else {})
    else:
        entry = dict(_entries()[key])
    kind = entry.pop("type")
    entry["title"] = f"{{{entry['title']}}}"
    if "eprint" in entry:
        entry |= {"archiveprefix": "arXiv", "doi": f"10.48550/arXiv.{entry['eprint']}"}
    lines = "".join(f"  {name} = {{{value}}},\n" for name, value in entry.items()).replace("&", r"\&")
    return f"@{kind}{{{key},\n{lines}}}"


@cache
def _entries() -> dict[str, Any]:
    return yaml.safe_load((groups.folder() / "references.yaml").read_text(encoding="utf-8"))
