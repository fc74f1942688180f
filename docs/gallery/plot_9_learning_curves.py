"""
Learning curves against seconds
===============================

With ``training.trace_test`` the test rows are scored during training, and the trace of each run has these scores and
the seconds. A step of ``star`` takes about twice as long as one of ``mf``, so it reaches the level of ``mf`` later,
although it ends higher on this split.
"""

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib.pyplot as plt
import pandas as pd

from dgpbench import load_results

SETTINGS = ["dataset=boston", "budget=laptop", "training.max_iterations=300", "method.num_inducing=32"]
SCORED = ["training.trace_test=true", "prediction.num_samples=20", "plot=false"]

with TemporaryDirectory() as folder:
    sweep = ["method=mf,star", "method.num_layers=2", f"results_dir={folder}", "--multirun"]
    subprocess.run(
        [sys.executable, "-m", "dgpbench", "run", *SETTINGS, *SCORED, *sweep], check=True, capture_output=True
    )
    runs = load_results(folder)
    traces = {
        f"{run.method}, L = {run.num_layers}": pd.read_parquet(Path(run.path) / "trace.parquet")
        for run in runs.itertuples()
    }

figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
for name, trace in traces.items():
    scored = trace.dropna(subset="test_tll")
    ax.plot(scored["seconds"], scored["test_tll"], label=name)
ax.set(xlabel="seconds of training", ylabel="test log-likelihood (nats per row)", ylim=(-3.5, -2.2), xscale="log")
ax.legend()
plt.show()
