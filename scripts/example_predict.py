"""From houses.csv to predictions for new.csv, with 90 % bands: python scripts/example_table.py comes first."""

import pandas as pd

from dgpbench import DeepGPRegressor

houses, new = pd.read_csv("houses.csv"), pd.read_csv("new.csv")
columns = {"dataset.missing": "impute", "dataset.categorical": "auto", "dataset.dates": "auto"}
model = DeepGPRegressor("mf", budget="laptop", settings=columns).set_output(transform="pandas")
model.fit(houses.drop(columns="price"), houses["price"])
bands = model.predict_quantiles(new, [0.05, 0.5, 0.95])
pd.concat([new, bands.round(-2)], axis=1).to_csv("bands.csv", index=False)
print(f"{len(new)} rows with their 5, 50 and 95 % quantiles: bands.csv")
