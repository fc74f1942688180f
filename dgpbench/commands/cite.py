"""``dgpbench cite``: whom to cite for a method or a data set."""

from argparse import Namespace

from dgpbench.config import groups, references
from dgpbench.config.settings import did_you_mean
from dgpbench.errors import UserError


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
        raise _unknown(name)
    lines = [f"{name}: {values['title']}", *filter(None, map(references.text, keys))]
    lines += [f"Licence: {licence}"] if licence else []
    lines += [f"\n{references.bibtex(key, name, values['title'])}" for key in keys]
    print("\n".join(lines if keys else [*lines, "no reference is known: cite the source of your table"]))
    return 0


def _unknown(name: str) -> UserError:
    names = [*groups.offered("method"), *groups.names("dataset")]
    return UserError(
        f"there is no method or data set '{name}'{did_you_mean(name, names)}; "
        "`dgpbench list methods` and `dgpbench list datasets` show them all"
    )
