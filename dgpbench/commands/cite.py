"""``dgpbench cite``: whom to cite for a method or a data set."""

from argparse import Namespace

from dgpbench.config import groups, references
from dgpbench.config.settings import did_you_mean
from dgpbench.errors import Refused


def cite(options: Namespace) -> int:
    """Print the reference of a method, with its BibTeX, or that of a data set with its licence."""
    if groups.exists("method", options.name):
        values = groups.describe("method", options.name)
        key = values["citation"]
        print(f"{options.name}: {values['title']}\n{references.text(key)}\n\n{references.bibtex(key)}".rstrip())
        return 0
    if options.name in groups.names("dataset"):
        values = groups.describe("dataset", options.name)
        print("\n".join([f"{options.name}: {values['title']}", *_card(values["card"])]))
        return 0
    names = [*groups.offered("method"), *groups.names("dataset")]
    raise Refused(
        f"there is no method or data set '{options.name}'{did_you_mean(options.name, names)}; "
        "`dgpbench list methods` and `dgpbench list datasets` show them all"
    )


def _card(card: dict) -> list[str]:
    doi = f"https://doi.org/{card['doi']}" if card.get("doi") else None
    facts = {"": card.get("citation"), "DOI: ": doi, "Licence: ": card.get("licence")}
    return [f"{name}{value}" for name, value in facts.items() if value] or ["no reference is known"]
