"""``dgpbench cite``: the references of a method or a data set."""

from argparse import ArgumentParser, Namespace
from functools import cache
from typing import Any

import yaml

from dgpbench.config import groups
from dgpbench.config.settings import did_you_mean
from dgpbench.errors import UserError

VENUES = ("booktitle", "journal", "school", "publisher", "howpublished")


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("name", metavar="METHOD|DATASET")


def cite(options: Namespace) -> int:
    """Print the references of a method or a data set as text, the licence of a data set, and BibTeX entries."""
    name = options.name
    if groups.exists("method", name):
        values, licence = groups.describe("method", name), None
        keys = [values["citation"]]
    elif name in groups.names("dataset"):
        values = groups.describe("dataset", name)
        keys, licence = values["card"]["citation"], values["card"]["licence"]
    else:
        near = did_you_mean(name, [*groups.offered("method"), *groups.names("dataset")])
        raise UserError(
            f"unknown method or data set '{name}'{near}; `dgpbench list methods` and `dgpbench list datasets` list them"
        )
    lines = [f"{name}: {values['title']}", *filter(None, map(reference, keys))]
    lines += [f"Licence: {licence}"] if licence else []
    lines += [f"\n{bibtex(key, name, values['title'])}" for key in keys]
    print("\n".join(lines if keys else [*lines, "no reference is known: cite the source of your table"]))
    return 0


def reference(key: str) -> str:
    """Return 'Salimbeni & Deisenroth (2017), Doubly stochastic ..., Advances in ...'; an unknown key as it is."""
    if key not in bibliography():
        return key
    entry = bibliography()[key]
    names = [author.partition(", ")[0].strip("{}") for author in entry["author"].split(" and ")]
    authors = f"{names[0]} et al." if len(names) > 3 else " & ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
    venue = next(entry[name] for name in VENUES if name in entry)
    return f"{authors} ({entry['year']}), {entry['title']}, {venue}"


def bibtex(key: str, name: str, title: str) -> str:
    """Return a BibTeX entry; for an unknown key, one with the given name and title, and the key as a note."""
    if key not in bibliography():
        key, entry = name, {"type": "misc", "title": title} | ({"note": key} if key else {})
    else:
        entry = dict(bibliography()[key])
    kind = entry.pop("type")
    entry["title"] = f"{{{entry['title']}}}"
    if "eprint" in entry:
        entry |= {"archiveprefix": "arXiv", "doi": f"10.48550/arXiv.{entry['eprint']}"}
    lines = "".join(f"  {name} = {{{value}}},\n" for name, value in entry.items()).replace("&", r"\&")
    return f"@{kind}{{{key},\n{lines}}}"


@cache
def bibliography() -> dict[str, Any]:
    """Return all entries of conf/references.yaml by their keys."""
    return yaml.safe_load((groups.folder() / "references.yaml").read_text(encoding="utf-8"))
