"""Structures: which M x M blocks of the variational factor C exist (Lindinger et al. 2020, Sec. 3.2).

Reference: docs/methods.md, "Structured posteriors".

A node is one GP, (l, t). C is lower triangular over the nodes in layer order; its diagonal blocks always exist,
and a *structure* lists the others. Layers and GPs count from 0 here, from 1 in the papers and in configuration.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from dgpbench.errors import UserError

Pairs = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Structure:
    """The off-diagonal blocks of C, for each pair of layers.

    :param widths: T_l, the number of GPs in each layer
    :param couplings: (l, k) -> the pairs (t, s) with a block C[(l, t), (k, s)]; k < l, or k = l and s < t
    """

    widths: tuple[int, ...]
    couplings: dict[tuple[int, int], Pairs]

    @cached_property
    def first_node(self) -> tuple[int, ...]:
        """The index of the first node of each layer."""
        return tuple(sum(self.widths[:layer]) for layer in range(len(self.widths)))

    @cached_property
    def factor_pattern(self) -> np.ndarray:
        """Pattern of the blocks of C, the diagonal included: [T, T] booleans, T the number of nodes."""
        pattern = np.eye(sum(self.widths), dtype=bool)
        for (layer, earlier), pairs in self.couplings.items():
            for t, s in pairs:
                pattern[self.first_node[layer] + t, self.first_node[earlier] + s] = True
        return pattern

    @property
    def covariance_pattern(self) -> np.ndarray:
        """Pattern of the blocks of S = C C^T that can be non-zero: [T, T] booleans."""
        pattern = self.factor_pattern.astype(int)
        return pattern @ pattern.T > 0

    @cached_property
    def is_recursive(self) -> bool:
        """True where STAR's scalar recursion applies: one output, equal hidden widths, whole stripes, whole arrows."""
        last = len(self.widths) - 1
        if self.widths[last] != 1 or len(set(self.widths[:last])) > 1:
            return False
        return all(
            earlier < layer and set(pairs) == {(0 if layer == last else t, t) for t in range(self.widths[earlier])}
            for (layer, earlier), pairs in self.couplings.items()
        )


def _stripe_pairs(width: int) -> Pairs:
    return tuple((t, t) for t in range(width))


def _all_pairs(rows: int, columns: int) -> Pairs:
    return tuple(product(range(rows), range(columns)))


def mean_field(widths: Sequence[int]) -> Structure:
    """No coupling (DSVI, Salimbeni & Deisenroth 2017)."""
    return Structure(tuple(widths), {})


def stripes(widths: Sequence[int]) -> Structure:
    """Hidden GPs of equal index t are coupled across layers."""
    hidden = range(len(widths) - 1)
    couplings = {(layer, k): _stripe_pairs(widths[layer]) for layer in hidden for k in range(layer)}
    return Structure(tuple(widths), couplings)


def arrow(widths: Sequence[int]) -> Structure:
    """The output GP is coupled to every hidden GP."""
    last = len(widths) - 1
    return Structure(tuple(widths), {(last, k): _all_pairs(widths[last], widths[k]) for k in range(last)})


def star(widths: Sequence[int]) -> Structure:
    """Stripes and arrow (Lindinger et al. 2020, Fig. 1, middle)."""
    return Structure(tuple(widths), stripes(widths).couplings | arrow(widths).couplings)


def chain(widths: Sequence[int]) -> Structure:
    """Neighbouring layers are coupled (cf. Ustyuzhaninov et al. 2020); the covariance fills in within a layer."""
    pairs = {(layer, layer - 1): _all_pairs(widths[layer], widths[layer - 1]) for layer in range(1, len(widths))}
    return Structure(tuple(widths), pairs)


def fully_coupled(widths: Sequence[int]) -> Structure:
    """All lower blocks (Lindinger et al. 2020, Fig. 1, right)."""
    layers = range(len(widths))
    across = {(layer, k): _all_pairs(widths[layer], widths[k]) for layer in layers for k in range(layer)}
    within = {(layer, layer): tuple((t, s) for t in range(widths[layer]) for s in range(t)) for layer in layers}
    return Structure(tuple(widths), across | {key: pairs for key, pairs in within.items() if pairs})


def custom(widths: Sequence[int], blocks: Sequence[dict]) -> Structure:
    """Build a user's own structure from a list of couplings between pairs of layers.

    Each entry is ``{layers: [l, k], gps: PAIRS}`` with layers counted from 1 as in the papers, l >= k, and PAIRS
    either ``same`` (equal indices), ``all``, or a list of ``[t, s]`` counted from 1.

    :raises UserError: for an entry that names a layer or GP that does not exist, or a block above the diagonal
    """
    couplings: dict[tuple[int, int], Pairs] = {}
    for entry in blocks:
        key, pairs = _custom_entry(tuple(widths), entry)
        couplings[key] = tuple(sorted(set(couplings.get(key, ())) | set(pairs)))
    return Structure(tuple(widths), {key: pairs for key, pairs in couplings.items() if pairs})


def _custom_entry(widths: tuple[int, ...], entry: dict) -> tuple[tuple[int, int], Pairs]:
    try:
        layer, earlier = (int(index) - 1 for index in entry["layers"])
        named = entry["gps"]
    except (KeyError, TypeError, ValueError):
        raise UserError(
            f"method.blocks holds {entry!r}; each entry reads {{layers: [3, 1], gps: same}}, with gps one of "
            "'same', 'all' or a list of [t, s] pairs, counted from 1"
        ) from None
    if not 0 <= earlier <= layer < len(widths):
        raise UserError(
            f"method.blocks couples layers {list(entry['layers'])}; layers run from 1 to {len(widths)}, "
            "the later layer first"
        )
    pairs = _named_pairs(named, widths[layer], widths[earlier])
    if layer == earlier:
        pairs = tuple(pair for pair in pairs if pair[0] > pair[1]) if named == "all" else pairs
    for t, s in pairs:
        if not (0 <= t < widths[layer] and 0 <= s < widths[earlier]) or (layer == earlier and t <= s):
            raise UserError(
                f"method.blocks couples GP {t + 1} of layer {layer + 1} to GP {s + 1} of layer {earlier + 1}; "
                f"these layers have {widths[layer]} and {widths[earlier]} GPs, and blocks lie below the diagonal"
            )
    return (layer, earlier), pairs


def _named_pairs(named: Any, rows: int, columns: int) -> Pairs:
    if named == "same":
        return _stripe_pairs(min(rows, columns))
    if named == "all":
        return _all_pairs(rows, columns)
    try:
        return tuple((int(t) - 1, int(s) - 1) for t, s in named)
    except (TypeError, ValueError):
        raise UserError(
            f"method.blocks gives gps={named!r}; use 'same', 'all' or a list of [t, s] pairs, counted from 1"
        ) from None


STRUCTURES: dict[str, Callable[..., Structure]] = {
    function.__name__: function for function in (mean_field, stripes, arrow, star, chain, fully_coupled, custom)
}


def num_blocks(name: str, widths: Sequence[int]) -> int:
    """Blocks of C, the diagonal ones included, counted and not listed; of a custom structure the diagonal ones."""
    hidden, width, nodes = len(widths) - 1, widths[0], sum(widths)
    stripes, arrow = width * hidden * (hidden - 1) // 2, width * hidden
    coupled = {
        "stripes": stripes,
        "arrow": arrow,
        "star": stripes + arrow,
        "chain": (width**2 * (hidden - 1) + width) * (hidden > 0),
        "fully_coupled": nodes * (nodes - 1) // 2,
    }
    return nodes + coupled.get(name, 0)
