"""Tables published as a file at a URL: read, cut into inputs and target, and known by the digest of their content."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from dgpbench.data import readers
from dgpbench.data.archives import opened, sha256_of
from dgpbench.data.download import Copy, Damaged, Part, damage_when_unreadable, obtain
from dgpbench.data.sources import sources_of
from dgpbench.data.table import Table


def load(spec: Mapping[str, Any]) -> Table:
    """The table, from the first good copy of its file."""
    (part,) = parts(spec)
    return obtain(spec["name"], part.sources, partial(read_table, spec))


def parts(spec: Mapping[str, Any]) -> list[Part]:
    """The one file that is needed."""
    return [Part(sources_of(spec["sources"]), partial(read_table, spec), recognisable=bool(spec.get("digest_xy")))]


def read_table(spec: Mapping[str, Any], copy: Copy) -> Table:
    """The table in a copy of its file.

    :raises Damaged: when it cannot be read or its content has another digest
    """
    with damage_when_unreadable():
        A = _numbers(spec, copy)
        table = _table(spec, A, copy)
    check_digest(spec, table)
    return table


def check_digest(spec: Mapping[str, Any], table: Table) -> None:
    """Accept the content that was published, in any order of rows, and no other."""
    expected = spec.get("digest_xy")
    if expected and table.digest_xy != expected:
        raise Damaged(f"holds a table with digest {table.digest_xy} instead of {expected}")


def _numbers(spec: Mapping[str, Any], copy: Copy) -> np.ndarray:
    with opened(copy.path, copy.source.member) as file:
        A = readers.read(file, copy.source.reader)
    if A.ndim != 2 or A.shape[1] != len(spec["columns"]) or not len(A):
        raise Damaged(f"holds a table of shape {A.shape} instead of {len(spec['columns'])} columns")
    if not np.isfinite(A).all():
        raise Damaged(f"holds {np.count_nonzero(~np.isfinite(A))} numbers that are missing or infinite")
    return A


def _table(spec: Mapping[str, Any], A: np.ndarray, copy: Copy) -> Table:
    """Inputs in the order of the file; a second target is no input."""
    names = list(spec["columns"])
    left_out = {spec["target"], *spec.get("other_targets", ())}
    features = [name for name in names if name not in left_out]
    X, y = A[:, [names.index(name) for name in features]], A[:, names.index(spec["target"])]
    return Table(spec["name"], X, y, tuple(features), spec["target"], (copy.file,), _verified(spec, copy))


def _verified(spec: Mapping[str, Any], copy: Copy) -> str:
    if spec.get("digest_xy"):
        return "digest"
    expected = copy.source.member_sha256
    return "member sha256" if expected and sha256_of(copy.path, copy.source.member) == expected else "unverified"
