"""Every kernel has a lengthscale for each of its inputs with ``method.ard``, and one for all without."""

import fit_once
import numpy as np
import pytest

from dgpbench.config import groups
from dgpbench.runs.resolve import resolve_overrides

D, WIDTH = 3, 2
FAMILIES = {"exact": "gpr", "sparse": "sgpr", "structured": "mf", "sampling": "sghmc", "power_ep": "aep",
            "fully_factorised": "fully_factorised", "subset": "sod"}  # fmt: skip
SMALL = ("budget=smoke", "training.max_iterations=1", "method.jitter=0.001")
DEEP = (f"method.width={WIDTH}", "method.num_layers=2")


@pytest.mark.full
@pytest.mark.parametrize("ard", [True, False])
@pytest.mark.parametrize(
    "method", [*fit_once.first_of(["gpr", "fitc", "sgpr", "sghmc", "aep", "fully_factorised", "sod"]), "mf"]
)
def test_a_kernel_has_a_lengthscale_for_each_input_or_one_for_all(method, ard):
    X = np.random.default_rng(0).normal(size=(20, D))
    single = method in ("gpr", "sgpr", "fitc")
    more = SMALL[:2] if single else (*SMALL, *DEEP)
    fitted = fit_once.fit(X, X[:, 0], f"method={method}", f"method.ard={ard}", *more, *inducing(method))
    found = [value.shape for path, value in fitted.parameters.items() if path.endswith("lengthscales")]
    inputs = [D] if single else [D, WIDTH]
    assert sorted(found) == sorted((number,) if ard else () for number in inputs)


def inducing(method):
    return [] if method == "gpr" else ["method.num_inducing=4"]


def test_every_family_is_among_the_cases():
    families = {resolve_overrides([f"method={name}"]).card.family for name in groups.names("method")}
    assert {family for family in families if not family.startswith("plug-in ")} == set(FAMILIES)
