"""``results verify --rescore``: a record's scores against the rows that it has kept, through the command line."""

import hashlib
import shutil
from pathlib import Path

import fit_once
import numpy as np
import pandas as pd
import pytest
from one_record import forge

FROM_OLD_POINTS = {"tll", "nlpp", "rmse", "sharpness", "calibration_error"} | {
    f"coverage_{p}" for p in (50, 80, 90, 95)
}
FROM_NEW_COLUMNS = ("crps", "interval_score_90", "pinball")


@pytest.fixture(scope="module")
def fitted(tmp_path_factory) -> Path:
    """A results folder with one run of many components."""
    folder = tmp_path_factory.mktemp("rescoring")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    table = fit_once.write_table(folder / "mine.csv", X, 500 + 30 * np.sin(X[:, 0]) + rng.normal(size=60))
    fit_once.run(folder, "method=mf", "method.num_layers=2", "budget=smoke", "training.max_iterations=5", *table)
    return folder


@pytest.fixture
def left(fitted, tmp_path) -> fit_once.Run:
    """A copy of that run, to be changed."""
    shutil.copytree(fitted / "runs", tmp_path / "runs")
    (path,) = tmp_path.rglob("record.json")
    return fit_once.Run(path.parent)


def rewrite(run: fit_once.Run, points: pd.DataFrame | None = None, **scores: float) -> None:
    """Put other scores, or other points and their hash, into a record: whole, and wrong."""
    files = {}
    if points is not None:
        path = run.directory / "points.parquet"
        points.to_parquet(path, index=False)
        data = path.read_bytes()
        files = {"points.parquet": {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}}
    both = scores | ({"nlpp": -scores["tll"]} if "tll" in scores else {})
    forge(run.directory / "record.json", lambda record: (record["scores"].update(both), record["files"].update(files)))


def rescore(run: fit_once.Run, capsys, *options: str) -> tuple[int, str]:
    """Exit code and output of ``results verify --rescore`` on the folder that holds the run."""
    code = fit_once.command("results", "verify", str(run.directory.parents[5]), "--rescore", *options)
    return code, capsys.readouterr().out


@pytest.mark.full
def test_scores_are_recomputed_from_the_points_to_the_bit(left, capsys):
    points, scores = left.points, left.scores
    y, quantiles = points["y"].to_numpy(), points[["q05", "q25", "q50", "q75", "q95"]].to_numpy()
    assert np.all(np.diff(quantiles, axis=1) > 0)
    assert scores["crps"] == points["crps"].to_numpy().mean()
    low, high = quantiles[:, 0], quantiles[:, 4]
    interval = high - low + np.where(y < low, 20 * (low - y), 0) + np.where(y > high, 20 * (y - high), 0)
    assert scores["interval_score_90"] == pytest.approx(interval.mean(), rel=1e-12)
    losses = [
        np.where(y >= q, p * (y - q), (1 - p) * (q - y))
        for p, q in zip((0.05, 0.25, 0.5, 0.75, 0.95), quantiles.T, strict=True)
    ]
    assert scores["pinball"] == pytest.approx(np.mean(losses), rel=1e-12)
    # The interval ends at PIT 0.05 and 0.95: it contains the rows counted by coverage_90.
    assert np.mean((y >= low) & (y <= high)) == scores["coverage_90"]
    code, printed = rescore(left, capsys)
    assert code == 0
    assert "1 records, 0 damaged" in printed
    assert "1 of 1 finished runs have the scores that their points give, 0 do not" in printed
    assert "not recomputed" not in printed


@pytest.mark.parametrize("name", ["tll", "crps", "coverage_90", "interval_score_90", "pinball", "sharpness"])
def test_a_score_that_differs_from_its_points_is_named_with_the_error(left, capsys, name):
    true = left.scores[name]
    wrong = true + (-0.015625 if name.startswith("coverage") else 0.015625)
    rewrite(left, **{name: wrong})
    code, printed = rescore(left, capsys)
    assert code == 1
    (line,) = [line for line in printed.splitlines() if f": {name} is" in line]
    assert line.startswith(f"{left.directory}: {name} is {wrong:.10g} in the record and {true:.10g} from")
    assert "0.0156" in line
    assert {"tll": "nats", "coverage_90": "0.0156 apart"}.get(name, "units of y") in line
    assert "0 of 1 finished runs have the scores that their points give, 1 do not" in printed
    assert left.directory.is_dir()


def test_a_changed_row_shows_in_every_score_that_it_enters(left, capsys):
    points = left.points
    points.loc[0, "q95"] += 1.0
    rewrite(left, points)
    code, printed = rescore(left, capsys)
    assert code == 1
    named = {line.split(": ")[1].split()[0] for line in printed.splitlines() if "in the record" in line}
    assert named == {"interval_score_90", "pinball"}


@pytest.mark.parametrize("wrong", [None, "rmse"])
def test_points_without_crps_and_quantiles_are_rescored_in_part(left, capsys, wrong):
    scores = left.scores
    old = left.points.drop(columns=["crps", "q05", "q25", "q50", "q75", "q95"])
    rewrite(left, old, **({} if wrong is None else {wrong: scores[wrong] * 1.01}))
    code, printed = rescore(left, capsys)
    assert code == (wrong is not None)
    (line,) = [line for line in printed.splitlines() if line.startswith("not recomputed")]
    assert line.endswith("crps of 1, interval_score_90 of 1, pinball of 1")
    assert set(scores) - set(FROM_NEW_COLUMNS) == FROM_OLD_POINTS
    differing = [line for line in printed.splitlines() if "in the record" in line]
    assert len(differing) == (wrong is not None)


def test_a_difference_in_the_last_bits_is_ignored(left, capsys):
    rewrite(left, tll=left.scores["tll"] * (1 + 1e-13))
    assert rescore(left, capsys)[0] == 0
    rewrite(left, tll=left.scores["tll"] * (1 + 1e-7))
    assert rescore(left, capsys)[0] == 1


def test_points_that_cannot_be_read_are_named_and_the_others_are_rescored(left, capsys):
    (left.directory / "points.parquet").write_bytes(b"PAR1 and no more")
    code, printed = rescore(left, capsys)
    assert code == 1
    assert f"{left.directory} cannot be rescored: " in printed
    assert "0 of 1 finished runs have the scores that their points give, 0 do not, 1 could not be rescored" in printed


def test_a_score_that_is_not_a_number_is_named(left, capsys):
    forge(left.directory / "record.json", lambda record: record["scores"].update(tll="much"))
    code, printed = rescore(left, capsys)
    assert code == 1
    assert "record.json is not as dgpbench writes it: its scores is " in printed


def test_without_the_flag_nothing_is_rescored(left, capsys):
    rewrite(left, tll=0.0)
    assert fit_once.command("results", "verify", str(left.directory.parents[5])) == 0
    assert "points give" not in capsys.readouterr().out
