"""Write houses.csv (400 rows with a price) and new.csv (20 rows without) to the current folder: a made-up table.

It has categories (district), a date (sold) and gaps (garden). docs/tutorials/own_table.md uses it.
"""

import numpy as np
import pandas as pd

PRICE_OF_A_SQUARE_METRE = {"centre": 5200, "harbour": 4600, "hills": 4900, "north": 3300}


def houses(number: int) -> pd.DataFrame:
    """A price grows with area, district, garden and time, with a season and 6 % of noise."""
    rng = np.random.default_rng(7)
    area = rng.lognormal(4.6, 0.35, number).round()
    rooms = np.clip((area / 28 + rng.normal(size=number)).round(), 1, 9).astype(int)
    district = rng.choice(list(PRICE_OF_A_SQUARE_METRE), number, p=[0.3, 0.2, 0.2, 0.3])
    day = rng.integers(0, 6 * 365, number)
    garden = np.where(district == "centre", 0.0, rng.gamma(2.0, 60.0, number).round())
    years = day / 365
    square_metre = pd.Series(district).map(PRICE_OF_A_SQUARE_METRE).to_numpy() * (area / 100) ** -0.12
    expected = square_metre * area * (1 + 0.05 * years + 0.03 * np.sin(2 * np.pi * years)) + 150 * garden
    price = expected * (1 + 0.06 * rng.normal(size=number))
    return pd.DataFrame(
        {
            "area": area,
            "rooms": rooms,
            "district": district,
            "sold": (pd.Timestamp("2019-01-01") + pd.to_timedelta(day, unit="D")).strftime("%Y-%m-%d"),
            "garden": np.where(rng.uniform(size=number) < 0.12, np.nan, garden),
            "price": price.round(-2),
        }
    )


if __name__ == "__main__":
    table = houses(420)
    table[:400].to_csv("houses.csv", index=False)
    table[400:].drop(columns="price").to_csv("new.csv", index=False)
    print("houses.csv: 400 rows with a price; new.csv: 20 rows without")
