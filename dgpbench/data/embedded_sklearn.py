"""scikit-learn's diabetes table, in its original units."""

from collections.abc import Mapping
from typing import Any

from dgpbench.data.download import Damaged
from dgpbench.data.table import Table
from dgpbench.data.uci import check_digest
from dgpbench.errors import UserError


def load(spec: Mapping[str, Any]) -> Table:
    """The table that scikit-learn ships, before its scaling."""
    from sklearn.datasets import load_diabetes

    bunch = load_diabetes(scaled=False)
    table = Table(spec["name"], bunch.data, bunch.target, tuple(bunch.feature_names), spec["target"], (), "digest")
    try:
        check_digest(spec, table)
    except Damaged as damage:
        raise UserError(f"the installed scikit-learn {damage}: install scikit-learn>=1.6,<2") from damage
    return table
