"""The task that Hydra's launchers call: one composed configuration, one run, one outcome; it never raises."""

import sys
from typing import Any

from dgpbench import outcomes


def task(cfg: Any) -> None:
    """Carry out one run and say how it ended, to the user and to whoever started the launcher."""
    from dgpbench.run import execute

    outcome = execute(cfg)
    outcomes.add(outcome)
    stream = sys.stdout if outcome.status in ("done", "skipped") else sys.stderr
    print(outcome.message, file=stream, flush=True)
