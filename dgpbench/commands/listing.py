"""``dgpbench list``: what conf/ holds, one line each."""

import json
from argparse import Namespace
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from dgpbench.config import groups, references
from dgpbench.system.progress import counted

SHOWN = {
    "methods": ("title", "citation"),
    "datasets": ("title", "n", "d"),
    "tasks": ("title",),
    "protocols": ("title",),
    "budgets": ("title",),
    "experiments": ("title",),
}


def listing(options: Namespace) -> int:
    """Print the entries of one group as a table or as JSON."""
    entries = [entry(options.group, name) for name in groups.names(options.group[:-1])]
    if options.group == "methods":
        entries += _installed({each["name"] for each in entries})
    if options.json:
        print(json.dumps(entries, indent=2))
        return 0
    width = max((len(each["name"]) for each in entries), default=0)
    for each in entries:
        facts = [_fact(key, each.get(key)) for key in SHOWN[options.group] if each.get(key) not in (None, "")]
        print(f"{each['name']:<{width}}  {'; '.join(facts)}")
    return 0


def entry(group: str, name: str) -> dict[str, Any]:
    """The facts of one entry that a list shows, from its file."""
    values = groups.describe(group[:-1], name)
    shown: dict[str, Any] = {key: values.get(key) for key in SHOWN[group]}
    if "citation" in shown:
        shown["citation"] = references.text(shown["citation"])
    return {"name": name} | shown


def _installed(known: set[str]) -> list[dict[str, Any]]:
    """The methods that installed packages offer."""
    return [_offered(each) for each in sorted(entry_points(group="dgpbench.methods")) if each.name not in known]


def _offered(point: EntryPoint) -> dict[str, Any]:
    """Our own baselines as ``cite`` has them; another package is not loaded, and only where its method is is known."""
    if point.dist is None or point.dist.name != "dgpbench":
        return {"name": point.name, "title": f"plug-in, {point.value}"}
    method = point.load()
    return {"name": point.name, "title": method.title, "citation": references.text(method.citation)}


def _fact(key: str, value: Any) -> str:
    units = {"n": "row", "d": "feature"}
    return counted(value, units[key]) if key in units else str(value)
