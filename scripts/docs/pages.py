"""Pages of README.md and docs/ with generated parts: what makes each part and picture, and whether they are current.

A generated part stands between two markers; all other words of a page are kept:

<!-- made by `make docs`: NAME -->
...
<!-- end of NAME -->
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path

import pandas as pd

from dgpbench.commands import cite
from dgpbench.config.settings import did_you_mean
from dgpbench.errors import UserError
from dgpbench.report.collect import frame_of
from dgpbench.runs import store
from dgpbench.system import files
from scripts.docs import bounds, front, laptop, own_table, pictures, results
from scripts.docs.pictures import Picture

_PART = re.compile(r"^<!-- made by `make docs`: (\S+) -->\n(.*?)^<!-- end of \1 -->$", re.MULTILINE | re.DOTALL)
_MARKER = re.compile(r"^<!-- (?:made by `make docs`: |end of )(\S+) -->$", re.MULTILINE)
PAGES = ("README.md", "docs/dgpbench_uci.md", "docs/laptop.md", "docs/methods.md", "docs/results/index.md")
STUDIES = (laptop.STUDY, laptop.EXTRAPOLATION, laptop.OTHERS)


def parts(frame: pd.DataFrame, found: results.Found) -> Mapping[str, Callable[[], str]]:
    """Return the function of each generated part, by the name in its markers."""
    return {
        "front": partial(front.text, frame),
        "overview": partial(results.overview, found),
        "rest": partial(results.rest, found),
        **{name: partial(results.section, name, found) for name in results.item_names()},
        f"{results.TABLE_1}_published_settings": partial(results.published_settings, frame),
        bounds.ITEM: partial(bounds.text, frame),
        **{name: partial(laptop.differences, name, frame) for name in STUDIES},
        **{name: partial(own_table.text, name, frame) for name in own_table.TABLES},
        "dgpbench_uci_summary": partial(own_table.summary, frame),
        **{f"{name}_pairs": partial(own_table.paired_text, name, frame) for name in own_table.PAIRS},
        "dgpbench_uci_pictures": partial(own_table.pictures_text, frame),
        **{f"{budget}_ablation": partial(laptop.ablation, STUDIES, budget, frame) for budget in laptop.BUDGETS},
        "laptop_picture": partial(laptop.picture_text, frame),
        "laptop_price": partial(laptop.price, frame),
        "references": references,
    }


def references() -> str:
    """List the papers of conf/references.yaml."""
    return "\n".join(sorted(f"- {cite.reference(key)}." for key in cite.bibliography()))


def drawn(frame: pd.DataFrame, found: results.Found) -> Mapping[str, Picture | None]:
    """Return the generated pictures by their path, None without records to draw."""
    made = {str(each.PICTURE): each.picture(frame) for each in (bounds, laptop)}
    bars = {f"docs/images/{file}": results.picture(name, found) for name, file in results.PICTURES.items()}
    return made | bars | own_table.pictures(frame)


def update(folder: Path, *, check: bool) -> list[str]:
    """Write the files of a checkout that differ from its compact records, and return their names.

    :param check: write nothing
    """
    frame, found = records(folder)
    texts = {name: new for name, old, new in _texts(folder, frame, found) if old != new}
    images = {name: each for name, each in drawn(frame, found).items() if pictures.differs(each, folder / name)}
    if not check:
        for name, text in texts.items():
            with files.replacing(folder / name) as half:
                half.write_text(text, encoding="utf-8", newline="\n")
        for name, picture in images.items():
            pictures.write(picture, folder / name)
    return [*texts, *images]


def records(folder: Path) -> tuple[pd.DataFrame, results.Found]:
    """Return the compact records of a checkout as ``collect`` does, and the comparisons of an item, each made once.

    Runs with raw files only do not count.

    :raises UserError: where a line is damaged or contradicts another
    """
    frame = frame_of(store.find(folder / "results", raw=False))
    if problems := frame.attrs["problems"]:
        raise UserError(f"{problems[0]} ({len(problems)} such in all); `dgpbench results verify` names them all")
    return frame, cache(partial(results.redone, frame=frame))


def _texts(folder: Path, frame: pd.DataFrame, found: results.Found) -> Iterator[tuple[str, str, str]]:
    """Yield each page as it is and as it should be."""
    made = parts(frame, found)
    items = sorted(path.relative_to(folder).as_posix() for path in (folder / "docs" / "results").glob("*.md"))
    for name in dict.fromkeys([*PAGES, *items]):
        try:
            old = (folder / name).read_bytes().decode("utf-8")
        except FileNotFoundError:
            raise UserError(f"{folder} has no {name}; name the folder of a checkout of dgpbench") from None
        yield name, old, filled(old, name, made)


# Markers -------------------------------------------------------------------------------------------------------------


def names_in(text: str, page: str) -> list[str]:
    """Return the names of the generated parts of a page, in its order.

    :raises UserError: where a marker has no partner, or a name is there twice
    """
    names = [found[1] for found in _PART.finditer(text)]
    for name in dict.fromkeys(_MARKER.findall(text)):
        if names.count(name) != 1 or _MARKER.findall(text).count(name) != 2:
            pair = f"'<!-- made by `make docs`: {name} -->' and below it '<!-- end of {name} -->'"
            raise UserError(f"the markers of {name} in {page} have no partners; it needs one line {pair}")
    return names


def filled(text: str, page: str, parts: Mapping[str, Callable[[], str]]) -> str:
    """Return the page with every generated part replaced.

    :param parts: what makes each part, by name; a page need not have all of them
    :raises UserError: for broken markers, or an unknown part
    """
    for name in names_in(text, page):
        if name not in parts:
            raise UserError(
                f"{page} names the unknown part '{name}'{did_you_mean(name, list(parts))}; known: {', '.join(parts)}"
            )
    return _PART.sub(lambda found: _part(found[1], parts[found[1]]()), text)


def _part(name: str, text: str) -> str:
    return f"<!-- made by `make docs`: {name} -->\n\n{text.strip()}\n\n<!-- end of {name} -->"
