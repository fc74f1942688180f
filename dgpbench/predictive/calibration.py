"""Whether intervals hold as many targets as they should, or as few as chance explains."""

SHARE = 0.95


def in_words(coverage: float, num_rows: int) -> str:
    """'95 % intervals hold 92.2 % of 51 rows, within chance (88.2 to 100.0 %)'.

    Of N targets, calibrated intervals hold Binomial(N, 0.95); chance is the central 95 % of its distribution.

    :param coverage: the share of the targets that the central 95 % intervals hold
    """
    from scipy.stats import binom

    low, high = (int(count) for count in binom.ppf([0.025, 0.975], num_rows, SHARE))
    held = round(coverage * num_rows)
    verdict = "within chance" if low <= held <= high else "too few for chance" if held < low else "too many for chance"
    meaning = {"too few for chance": ": too narrow", "too many for chance": ": too wide"}.get(verdict, "")
    expected = f"{low / num_rows:.1%} to {high / num_rows:.1%}".replace("%", " %")
    return f"95 % intervals hold {100 * coverage:.1f} % of {num_rows:,} rows, {verdict} ({expected}){meaning}"
