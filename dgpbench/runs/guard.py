"""Around a run: its limits, its faults and its record, however it ends. Nothing here knows of GPs."""

import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

from dgpbench.errors import Diverged, TimedOut, UserError
from dgpbench.runs import outcomes, summary, timeout_process
from dgpbench.runs.outcomes import Ending, Outcome, Result
from dgpbench.runs.problem import Problem
from dgpbench.runs.resolve import Run
from dgpbench.system import watchdog
from dgpbench.system.progress import Forecast
from dgpbench.training.checkpoints import Checkpoints, interval
from dgpbench.training.monitor import Monitor


def guarded(run: Run, problem: Problem, forecast: Forecast, carry_out: Callable[[Monitor], Result]) -> Outcome:
    """Carry out a run within its limits and write its record.

    :param forecast: what the run's log tells of its first iterations
    :raises KeyboardInterrupt: after the record of an interrupted run is written
    :raises UserError: where the run cannot be carried out
    """
    log = Monitor(
        run.training.max_seconds,
        run.limits.seconds,
        checkpoints=checkpoints_of(run),
        forecast=forecast,
    )
    started = datetime.now(UTC)
    write = partial(outcomes.write, run, problem, log, started)
    hung = partial(outcomes.compose, run, problem, log, started, None, Ending("timeout", watchdog.HUNG))
    limit = run.limits.seconds
    try:
        with (
            timeout_process.standing_by(limit, run.directory, hung),
            watchdog.limited(limit, lambda stack: write(None, Ending("timeout", watchdog.HUNG, stack))),
        ):
            result = carry_out(log)
    except KeyboardInterrupt:
        write(None, Ending("interrupted", "the run was interrupted"))
        raise
    except (TimedOut, Diverged) as ended:
        result, ending = None, Ending("timeout" if isinstance(ended, TimedOut) else "diverged", str(ended))
    except UserError:
        raise
    except (Exception, SystemExit) as met:  # a method can fail in any way, and the record says in which
        result, ending = None, Ending("failed", f"{type(met).__name__}: {met}", traceback.format_exc())
    else:
        ending = Ending("done")
    written = write(result, ending)
    return Outcome(ending.status, str(run.directory), summary.of_run(written, run.directory))


def checkpoints_of(run: Run) -> Checkpoints:
    """Where a run keeps what it goes on from."""
    return Checkpoints(run.directory / "checkpoint", every_seconds=interval())
