"""``dgpbench show RUN``: print a record or a model, and draw the picture of a run."""

import json
from argparse import ArgumentParser, Namespace
from pathlib import Path

from dgpbench import saved_model
from dgpbench.commands.arguments import add_json
from dgpbench.commands.figure import format_of
from dgpbench.errors import UserError
from dgpbench.runs import store, summary
from dgpbench.runs.compact_records import StoredRecord


def show(options: Namespace) -> int:
    """Print a run's scores and settings; with ``--plot`` write its picture."""
    if options.output and not options.plot:
        raise UserError(f"--output {options.output} is where --plot writes the picture; give both, or neither")
    if options.plot:
        format_of(None, options.output)  # refuses an ending that is not a picture's
    if (Path(options.run) / saved_model.MODEL).is_file():
        return _show_model(Path(options.run), options)
    line = compact_record(options.run)
    if line is not None:
        return _show_compact(line, options)
    directory = run_directory(options.run)
    try:
        record = store.read_record(directory)
    except ValueError as error:
        raise UserError(f"{error}; run it again to replace it") from None
    if options.json:
        print(json.dumps(record, indent=2))
    else:
        print(summary.of_run(record, directory))
        print("\n".join(_settings(record)))
    for problem in store.verify_run(directory):
        print(f"damaged: {problem}")
    if options.plot:
        print(f"picture: {_plot(directory, record, options.output)}")
    return 0


def _show_model(path: Path, options: Namespace) -> int:
    if options.plot:
        raise UserError(f"{path} is a model: it has no runs to draw; `dgpbench fit` draws its held-out rows")
    about = saved_model.load(path).about
    if options.json:
        print(json.dumps(about, indent=2))
        return 0
    num_test = about.get("held_out", 0)
    held_out = summary.held_out_lines(num_test, about["data"]["n"] - num_test, about["scores"]) if num_test else []
    print("\n".join([summary.of_model(about), *held_out, *_settings(about), f"model: {path}"]))
    return 0


def compact_record(given: str) -> StoredRecord | None:
    """The compact record that FILE:LINE names, or a run's directory that is not here."""
    found = store.named(given)
    return None if found is None or Path(found.source).is_dir() else found


def _show_compact(line: StoredRecord, options: Namespace) -> int:
    if options.json:
        print(json.dumps(line.record, indent=2))
    else:
        print(summary.of_run(line.record, line.source))
        print("\n".join(_settings(line.record)))
    if options.plot:
        raise UserError(
            f"{line.source} is a compact record: a picture needs the run's own files, below results/runs where it "
            "was executed"
        )
    return 0


def run_directory(given: str) -> Path:
    """The run directory that a path names: itself, its record, or the only run below it.

    :raises UserError: if no run, or several runs, match
    """
    path = Path(given)
    path = path.parent if path.name == store.RECORD else path
    if (path / store.RECORD).is_file():
        return path
    below = sorted(found.parent for found in path.rglob(store.RECORD)) if path.is_dir() else []
    if len(below) == 1:
        return below[0]
    if below:
        raise UserError(f"{given} holds {len(below)} runs; name one of them, such as {below[0]}")
    raise UserError(
        f"{given} is not a run; runs are below results/runs, each in the directory that `dgpbench run` prints"
    )


_VERIFIED = {"digest": "as expected", "member sha256": "the file's sha256 as expected", "own": "a table of your own"}


def _settings(record) -> list[str]:
    """Training and method settings, the data's digest and the code's state, a line each."""
    config, data, git = record["config"], record["data"], record["git"]
    lines = [
        f"  {section}: "
        + ", ".join(f"{key}={value}" for key, value in config[section].items() if not key.startswith("_"))
        for section in ("method", "training", "prediction")
    ]
    code = (
        "an installed wheel" if git is None else f"commit {git['commit'][:12]}{' with changes' if git['dirty'] else ''}"
    )
    verified = _VERIFIED.get(data["verified"], data["verified"])
    return [
        *lines,
        f"  data: {data['n']:,} x {data['d']}, digest {data['digest_xy'][:16]}.. ({verified})",
        f"  code: {code}",
    ]


def _plot(directory: Path, record, output: str | None) -> Path:
    from dgpbench.report.figures.run_figure import save_run_figure

    if record["status"] != "done":
        raise UserError(f"{directory} is {record['status']}: there are no predictions to draw")
    try:
        return save_run_figure(directory, Path(output) if output else directory / "figure.png")
    except ValueError as problem:
        raise UserError(f"there is no picture to draw: {problem}; run it again to replace it") from None


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``dgpbench show``."""
    place = "a run's directory, below results/runs, FILE.jsonl:LINE, or the directory of a fitted model"
    parser.add_argument("run", help=place)
    parser.add_argument("--plot", action="store_true", help="draw its picture")
    parser.add_argument("--output", help="file of the picture (default: figure.png beside the record)")
    add_json(parser, "print the record")
