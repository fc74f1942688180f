"""
Learning curves against seconds
===============================

``training.trace_test`` scores the test rows during training; the trace of each run has these scores beside the
seconds. The sparse GP is best after one second, and the deep GPs need longer, ``star`` about twice as long as ``mf``.
"""

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib.pyplot as plt
import pandas as pd

from dgpbench import load_results

SETTINGS = ["dataset=boston", "budget=laptop", "training.max_iterations=400", "method.num_inducing=32"]
QUIET = ["training.trace_test=true", "plot=false", "progress=false"]

with TemporaryDirectory() as folder:
    sweep = ["method=sgp,mf,star", f"results_dir={folder}", "--multirun"]
    subprocess.run([sys.executable, "-m", "dgpbench", "run", *SETTINGS, *QUIET, *sweep], check=True)
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
