"""Which method suits a table: mean test log-likelihood of three methods over five splits of houses.csv.

Every run is a record below results/, so that the second time takes seconds. Needs scripts/example_table.py first.
"""

import subprocess

from dgpbench import load_results

TABLE = ["dataset=csv", "dataset.path=houses.csv", "dataset.target=price"]
COLUMNS = ["dataset.missing=impute", "dataset.categorical=auto", "dataset.dates=auto"]
SWEEP = ["method=sgp,mf,sghmc", "split=range(5)", "budget=laptop", "--multirun"]

subprocess.run(["dgpbench", "run", *TABLE, *COLUMNS, *SWEEP], check=True)
runs = load_results("results")
runs = runs[runs["dataset"].str.startswith("houses")]
print(runs.groupby("method")[["tll", "rmse", "coverage_95"]].agg(["mean", "sem", "count"]).round(3))
