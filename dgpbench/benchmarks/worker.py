"""One process that steps for one cell: ``python -m dgpbench.benchmarks.worker``, with the cell as a line of JSON.

Our methods run their own ``fit``, with a log that takes turns; so a new method is timed without being named here.
"""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from dgpbench.benchmarks.cases import Cell, resolve
from dgpbench.benchmarks.rates import product_rate
from dgpbench.benchmarks.turns import Finished, Turns, own_standard_output
from dgpbench.data.standardise import Regression
from dgpbench.errors import UserError
from dgpbench.runs.resolve import Run
from dgpbench.training.monitor import Monitor, Predict


@dataclass
class TurnsLog(Monitor):
    """A log that waits for its turn whenever the method records a row of its trace."""

    turn: Callable[[int, float], None] = field(default=lambda iteration, excluded: None)

    def record(
        self,
        iteration: int,
        elbo: float,
        validation_tll: float | None,
        max_iterations: int,
        predict: Predict | None = None,
    ) -> None:
        """A block of steps has ended."""
        self.turn(iteration, self.tracing_seconds)


def main() -> int:
    """Step when told to, until told otherwise; what cannot be timed is answered with one sentence."""
    answers = own_standard_output()
    cell = Cell(**json.loads(sys.stdin.readline()))
    try:
        train(cell, lambda rate, facts: Turns(sys.stdin, answers, rate, facts))
    except Finished:
        return 0
    except UserError as refusal:
        problem = str(refusal)
    except Exception as met:  # any library can fail in any way; the table's other cells go on
        problem = f"{type(met).__name__}: {met}".splitlines()[0]
    else:
        problem = "it ended before enough steps were timed"
    answers.write(json.dumps({"problem": problem}) + "\n")
    answers.flush()
    return 1


def train(cell: Cell, turns: Callable[[Callable[[], float], dict[str, Any]], Turns]) -> None:
    """Steps of a cell's method, or of a peer's."""
    from dgpbench.benchmarks import peers

    if cell.code in peers.PEERS:
        data, source = rows(cell)
        return peers.PEERS[cell.code](cell, data, lambda rate: turns(rate, {"data": source}))
    _train_ours(cell, turns)


def _train_ours(cell: Cell, turns) -> None:
    """The method's own ``fit`` on the cell's data; the floor is counted from the same settings."""
    run = resolve(cell)
    data, source = rows(cell, run)
    from dgpbench.system import tf_session

    tf_session.start(cell.threads, cell.precision)
    from dgpbench.benchmarks.floors import flops
    from dgpbench.methods.interface import Seeds, fit_function

    rate = product_rate(cell)
    log = TurnsLog(turn=turns(rate, {"data": source, "gflop": flops(cell, run, data.X.shape[1]) / 1e9}))
    fit_function(run.card.family)(data, run.sized(data.X.shape), Seeds(0, 1, 2, 3, 4), log)


def rows(cell: Cell, run: Run | None = None) -> tuple[Regression, str]:
    """Standardised training rows of split 0, and what they are: a step costs the same on normals of the same shape."""
    import numpy as np

    from dgpbench.data import datasets
    from dgpbench.runs.fit import as_precision
    from dgpbench.runs.problem import prepare

    run = resolve(replace(cell, code="dgpbench")) if run is None else run
    try:
        data = prepare(run, datasets.load(run.dataset)).train
        source = cell.dataset
    except UserError:
        if "n" not in run.dataset:
            raise
        rng = np.random.default_rng(0)
        N, D = round(0.9 * run.dataset["n"]), run.dataset["d"]
        data = Regression(rng.normal(size=(N, D)), rng.normal(size=(N, 1)))
        source = f"standard normals of {cell.dataset}'s shape"
    return as_precision(data, cell.precision), source


if __name__ == "__main__":
    sys.exit(main())
