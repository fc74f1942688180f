"""Pages of which a part is generated: what stands between two markers is made anew, all other words are kept.

<!-- made by `make docs`: NAME -->
...
<!-- end of NAME -->
"""

import re
from collections.abc import Callable, Mapping

from dgpbench.config.settings import did_you_mean
from dgpbench.errors import UserError

_PART = re.compile(r"^<!-- made by `make docs`: (\S+) -->\n(.*?)^<!-- end of \1 -->$", re.MULTILINE | re.DOTALL)
_MARKER = re.compile(r"^<!-- (?:made by `make docs`: |end of )(\S+) -->$", re.MULTILINE)


def names_in(text: str, page: str) -> list[str]:
    """The names of the generated parts of a page, in its order.

    :raises UserError: where a marker has no partner, or a name is there twice
    """
    names = [found[1] for found in _PART.finditer(text)]
    for name in dict.fromkeys(_MARKER.findall(text)):
        if names.count(name) != 1 or _MARKER.findall(text).count(name) != 2:
            pair = f"'<!-- made by `make docs`: {name} -->' and below it '<!-- end of {name} -->'"
            raise UserError(f"the markers of {name} in {page} have no partners; it needs one line {pair}")
    return names


def filled(text: str, page: str, parts: Mapping[str, Callable[[], str]]) -> str:
    """The page with every generated part made anew.

    :param parts: what makes each part, by name; a page need not have all of them
    :raises UserError: for broken markers, or a part that there is not
    """
    for name in names_in(text, page):
        if name not in parts:
            raise UserError(f"{page} asks for '{name}'{did_you_mean(name, list(parts))}; there are {', '.join(parts)}")
    return _PART.sub(lambda found: _part(found[1], parts[found[1]]()), text)


def _part(name: str, text: str) -> str:
    return f"<!-- made by `make docs`: {name} -->\n\n{text.strip()}\n\n<!-- end of {name} -->"
