"""
A table with categories, dates and gaps
=======================================

A data frame with text, dates and missing values is fitted; four settings define how it is read. The predicted price
grows with the area at a rate that depends on the district. The bands widen with the price, since its logarithm is
fitted.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from dgpbench import DeepGPRegressor

rng = np.random.default_rng(3)
number = 400
area = rng.lognormal(4.5, 0.4, number).clip(30, 220)
district = rng.choice(["centre", "harbour", "hills"], number)
sold = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 1500, number), unit="D")
rate = pd.Series(district).map({"centre": 6.5, "harbour": 4.5, "hills": 3.0}).to_numpy()
price = rate * area * (1 + 0.1 * rng.normal(size=number))
houses = pd.DataFrame({"area": area, "district": district, "sold": sold})
houses.loc[rng.uniform(size=number) < 0.1, "area"] = np.nan

settings = {
    "dataset.categorical": "auto",
    "dataset.dates": "auto",
    "dataset.missing": "impute",
    "dataset.target_transform": "log",
    "training.max_iterations": 300,
    "method.num_inducing": 30,
}
model = DeepGPRegressor("mf", num_layers=2, settings=settings).fit(houses, price)

areas = np.linspace(40, 200, 60)
figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
for name in ("centre", "harbour", "hills"):
    new = pd.DataFrame({"area": areas, "district": name, "sold": pd.Timestamp("2022-01-01")})
    low, middle, high = model.predict_quantiles(new, [0.05, 0.5, 0.95]).T
    (line,) = ax.plot(areas, middle, label=name)
    ax.fill_between(areas, low, high, color=line.get_color(), alpha=0.2)
    rows = houses["district"] == name
    ax.plot(houses["area"][rows], price[rows], ".", color=line.get_color(), markersize=3)
ax.set(xlabel="area (square metres)", ylabel="price (thousands)", title="median and 90 % band")
ax.legend()
plt.show()
