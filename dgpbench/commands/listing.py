"""``dgpbench list``: the entries of a group of conf/, one line each."""

import json
from argparse import ArgumentParser, Namespace
from importlib.metadata import entry_points
from typing import Any

from dgpbench.commands.cite import reference
from dgpbench.commands.console import add_json
from dgpbench.config import groups
from dgpbench.system.progress import counted

SHOWN = {
    "methods": ("title", "citation"),
    "datasets": ("title", "n", "d"),
    **dict.fromkeys(("tasks", "protocols", "budgets", "experiments"), ("title",)),
}


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("group", choices=tuple(SHOWN))
    add_json(parser)


def listing(options: Namespace) -> int:
    """Print the entries of one group as a table or as JSON."""
    entries = [entry(options.group, name) for name in groups.names(options.group[:-1])]
    if options.group == "methods":
        known = {each["name"] for each in entries}
        for point in sorted(entry_points(group="dgpbench.methods")):
            if point.name not in known:
                shown = {"title": f"plug-in, {point.value}"}
                if point.dist is not None and point.dist.name == "dgpbench":  # only our own baselines are loaded
                    method = point.load()
                    shown = {"title": method.title, "citation": reference(method.citation)}
                entries.append({"name": point.name} | shown)
    if options.json:
        print(json.dumps(entries, indent=2))
        return 0
    width = max((len(each["name"]) for each in entries), default=0)
    units = {"n": "row", "d": "feature"}
    for each in entries:
        values: dict[str, Any] = {key: each.get(key) for key in SHOWN[options.group] if each.get(key) not in (None, "")}
        facts = [counted(value, units[key]) if key in units else str(value) for key, value in values.items()]
        print(f"{each['name']:<{width}}  {'; '.join(facts)}")
    return 0


def entry(group: str, name: str) -> dict[str, Any]:
    """Return what a list shows of one entry, from its file."""
    values = groups.describe(group[:-1], name)
    shown: dict[str, Any] = {key: values.get(key) for key in SHOWN[group]}
    if "citation" in shown:
        shown["citation"] = reference(shown["citation"])
    return {"name": name} | shown
