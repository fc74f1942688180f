"""``dgpbench show RUN``: print a record or a model, draw the picture of a run, and write its trace for TensorBoard."""

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dgpbench import saved_model
from dgpbench.commands.console import PICTURES, add_json, format_of
from dgpbench.commands.console import say as print_error
from dgpbench.errors import UserError
from dgpbench.runs import store, summary
from dgpbench.runs.identity import Identity
from dgpbench.system import tf_session
from dgpbench.system.files import check_folder

EVENTS = ".dgpbench"  # end of the name of an event file


def show(options: Namespace) -> int:
    """Print a run's scores and settings; with ``--plot`` and ``--tensorboard`` write its picture and its trace."""
    if options.output and not options.plot:
        raise UserError(f"--output {options.output} is where --plot writes the picture; give both, or neither")
    if options.plot:
        format_of(None, options.output, PICTURES)  # refuses an ending that is not a picture's
    path = Path(options.run)
    directory: Path | None = None
    say = print_error if options.json else print  # JSON is the whole of standard output
    if (path / saved_model.MODEL).is_file():
        if options.plot:
            raise UserError(f"{path} is a model: it has no runs to draw; `dgpbench fit` draws its held-out rows")
        if options.tensorboard:
            raise UserError(f"{path} is a model, which has no trace; name the directory of a run")
        record: Mapping[str, Any] = saved_model.load(path).about
        num_test = record.get("held_out", 0)
        held_out = num_test and summary.held_out_lines(num_test, record["data"]["n"] - num_test, record["scores"])
        lines = [summary.of_model(record), *(held_out or []), *_settings(record), f"model: {path}"]
    else:
        stored = store.named(options.run) or store.named(str(run_below(path)))
        assert stored is not None  # the run below has a record
        record, source = stored.record, stored.source
        directory = Path(source) if Path(source).is_dir() else None  # None for a compact record
        lines = [] if options.json else [summary.of_run(record, source), *_settings(record)]
    print(json.dumps(record, indent=2) if options.json else "\n".join(lines))
    for problem in store.verify_run(directory) if directory else ():
        say(f"damaged: {problem}")
    if (options.plot or options.tensorboard) and not directory:
        raise UserError(
            f"{source} is a compact record: a picture or a trace needs the run's own files, below results/runs where "
            "it was executed"
        )
    if directory and options.tensorboard:
        say(f"events: {write_events(directory, record, Path(options.tensorboard))}")
    if directory and options.plot:
        from dgpbench.report.figures.run_figure import save_run_figure

        if record["status"] != "done":
            raise UserError(f"{directory} is {record['status']}: there are no predictions to draw")
        try:
            say(f"picture: {save_run_figure(directory, Path(options.output or directory / 'figure.png'))}")
        except ValueError as problem:
            raise UserError(f"there is no picture to draw: {problem}; run it again to replace it") from None
    return 0


def write_events(directory: Path, record: Mapping[str, Any], folder: Path) -> Path:
    """Write the trace of a run as TensorBoard events, to a directory with the run's name below ``folder``.

    :raises UserError: if the run has no trace, or the directory cannot be written
    """
    import pandas as pd

    if store.TRACE not in record["files"]:
        raise UserError(f"{directory} has no trace: its method records none, or it ended too early")
    try:
        trace = pd.read_parquet(directory / store.TRACE).set_index("iteration")
    except (OSError, ValueError) as problem:
        raise UserError(f"{directory / store.TRACE} cannot be read ({problem}); rerun the run") from None
    target = folder / Identity(**record["identity"]).key
    check_folder(target, "choose another folder with --tensorboard")
    for earlier in target.glob(f"events.*{EVENTS}"):
        earlier.unlink()
    tf_session.start(1, "float64")
    import tensorflow as tf

    # tf.summary.scalar would do this, but is part of the package tensorboard.
    scalar = tf.compat.v1.SummaryMetadata(plugin_data={"plugin_name": "scalars"}, data_class="DATA_CLASS_SCALAR")
    tags = {"elbo": record.get("objective", "objective")}
    with tf.summary.create_file_writer(str(target), filename_suffix=EVENTS).as_default():
        for name, column in trace.items():
            for iteration, value in column.dropna().items():
                tf.summary.write(tags.get(name, name), tf.cast(value, tf.float32), iteration, scalar)
    return target


def run_below(folder: Path) -> Path:
    """Return the directory of the only run below a folder.

    :raises UserError: if there is none, or there are several
    """
    below = sorted(record.parent for record in folder.rglob(store.RECORD) if record.is_file())
    if len(below) == 1:
        return below[0]
    if below:
        raise UserError(f"{folder} holds {len(below)} runs; name one of them, such as {below[0]}")
    raise UserError(
        f"{folder} is not a run; runs are below results/runs, each in the directory that `dgpbench run` prints"
    )


_VERIFIED = {"digest": "as expected", "member sha256": "the file's sha256 as expected", "own": "a table of your own"}


def _settings(record) -> list[str]:
    """Return training and method settings, the data's digest and the code's state, a line each."""
    lines, data, git = [], record["data"], record["git"]
    for section in ("method", "training", "prediction"):
        settings = {key: value for key, value in record["config"][section].items() if not key.startswith("_")}
        lines.append(f"  {section}: {', '.join(f'{key}={value}' for key, value in settings.items())}")
    verified = _VERIFIED.get(data["verified"], data["verified"])
    lines.append(f"  data: {data['n']:,} x {data['d']}, digest {data['digest_xy'][:16]}.. ({verified})")
    code = git and f"commit {git['commit'][:12]}{' with changes' if git['dirty'] else ''}"
    return [*lines, f"  code: {code or 'an installed wheel'}"]


def add_arguments(parser: ArgumentParser) -> None:
    place = "a run's directory, below results/runs, FILE.jsonl:LINE, or the directory of a fitted model"
    parser.add_argument("run", help=place)
    parser.add_argument("--plot", action="store_true", help="draw its picture")
    events = "write its trace as TensorBoard event files below DIRECTORY"
    parser.add_argument("--tensorboard", metavar="DIRECTORY", help=events)
    parser.add_argument("--output", metavar="FILE", help="file of the picture (default: figure.png beside the record)")
    add_json(parser, "print the record")
