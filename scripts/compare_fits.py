"""Compare every method's fits by two checkouts, bit by bit: the acceptance test of a change that must move no number.

    git worktree add ../before main
    python scripts/compare_fits.py ../before [METHOD ...]

Each checkout runs each method on step and boston at budget=smoke. Directory, hash, parameters, predictions of the test
rows and scores must be equal. It takes some ten minutes for all methods; exit code 1 and a list where fits differ.
"""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd

HERE = Path(__file__).resolve().parent.parent
DATASETS = ("step", "boston")
BASELINES = ("bayesian_ridge", "gradient_boosting_quantiles", "mc_dropout", "deep_ensemble")
MORE = {"custom": ("method.blocks=[{layers: [2, 1], gps: all}]", "method.num_layers=2")}


def digest(checkout: Path, method: str, dataset: str) -> dict | str:
    """Return what a run leaves, or the last line that it prints where it leaves no record."""
    settings = (f"method={method}", f"dataset={dataset}", "budget=smoke", "plot=false", *MORE.get(method, ()))
    with TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "dgpbench", "run", *settings, f"results_dir={folder}"]
        paths = {"PYTHONPATH": str(checkout)}
        done = subprocess.run(command, cwd=checkout, env=os.environ | paths, capture_output=True, text=True)
        files = list(Path(folder).rglob("record.json"))
        if not files:
            return done.stderr.strip().splitlines()[-1]
        record, run = json.loads(files[0].read_text()), files[0].parent
        parameters = np.load(run / "parameters.npz")
        return {
            "directory": str(run.relative_to(folder)),
            "hash": record["config_hash"],
            "parameters": hashlib.sha256(b"".join(parameters[key].tobytes() for key in sorted(parameters))).hexdigest(),
            "points": hashlib.sha256(pd.read_parquet(run / "points.parquet").to_csv().encode()).hexdigest(),
            "scores": record["scores"],
        }


def main(other: Path, methods: list[str]) -> int:
    methods = methods or [*sorted(path.stem for path in (HERE / "conf/method").glob("*.yaml")), *BASELINES]
    differing = []
    for method in methods:
        for dataset in DATASETS:
            ours, theirs = (digest(checkout, method, dataset) for checkout in (HERE, other.resolve()))
            equal = ours == theirs and isinstance(ours, dict)
            print(f"{'equal' if equal else 'DIFFERENT':10} {method} {dataset}", flush=True)
            if not equal:
                differing.append(f"{method} {dataset}:\n  {ours}\n  {theirs}")
    print(*differing, f"{len(differing)} of {len(methods) * len(DATASETS)} fits differ", sep="\n")
    return 1 if differing else 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
