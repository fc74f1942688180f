"""What each column became, for a reader."""

from collections.abc import Mapping, Sequence
from typing import Any


def in_words(described: Sequence[Mapping[str, Any]], most: int = 20) -> list[str]:
    """Lines for a reader: the numbers in one, and one for each other column."""
    plain = [each["column"] for each in described if each["kind"] == "number" and "fill" not in each]
    others = [each for each in described if each["column"] not in plain]
    lines = (
        [f"  {', '.join(plain[:most])}{f' and {len(plain) - most} more' * (len(plain) > most)}: numbers"]
        if plain
        else []
    )
    lines += [f"  {each['column']}: {_words(each)}" for each in others[:most]]
    return lines + ([f"  and {len(others) - most} more columns"] if len(others) > most else [])


def _words(described: Mapping[str, Any]) -> str:
    if described["kind"] == "category":
        categories = described["categories"]
        shown = ", ".join(categories[:5]) + (", ..." if len(categories) > 5 else "")
        columns = f"{len(categories)} column{'s' * (len(categories) != 1)} of 0 and 1"
        return f"{columns}, one for each category ({shown}); all 0 for an unknown one"
    what = {"number": "numbers", "flag": "1 for true, 0 for false", "date": "days since 1970-01-01"}[described["kind"]]
    if "fill" not in described:
        return what
    gaps = f"{described['gaps']:,} gap{'s' * (described['gaps'] != 1)}"
    return f"{what}, {gaps} filled with the training rows' median, {described['fill']:.6g}, and marked in a column"
