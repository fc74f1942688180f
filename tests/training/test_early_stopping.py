"""Prechelt's UP_5 on a smoothed score, and how a smaller budget scales it."""

import numpy as np
import pytest

from dgpbench.config import groups
from dgpbench.data.standardise import Regression
from dgpbench.experiments.items import load
from dgpbench.runs.resolve import resolve_overrides
from dgpbench.training.early_stopping import StoppingRule, hold_out, stopping_rule


def stopped_at(rule, scores):
    """The iteration at which the rule stops a run with these scores, or None."""
    ends = ((k + 1) * rule.interval for k in range(len(scores)))
    return next((end for k, end in enumerate(ends) if rule.stops(end, list(scores[: k + 1]))), None)


def published(**changes):
    return StoppingRule(**({"start": 5000} | changes))


def test_five_falling_strips_stop_a_run_after_its_first_part():
    scores = np.concatenate([np.linspace(0, 1, 550), np.linspace(1, 0, 400)])
    at = stopped_at(published(), scores)
    assert 5500 + 5 * 50 <= at <= 5500 + 1000


def test_a_rising_score_never_stops_a_run():
    assert stopped_at(published(), np.linspace(0, 1, 2000)) is None


def test_nothing_stops_in_the_first_part():
    assert stopped_at(published(start=3000), np.linspace(1, 0, 300)) is None
    assert stopped_at(published(start=3000), np.linspace(1, 0, 310)) is not None


def test_five_falling_strips_stop_a_run_and_four_do_not():
    rule = StoppingRule(start=0, smoothing=5)
    assert stopped_at(rule, np.repeat([6.0, 5.0, 4.0, 3.0, 2.0, 1.0], 5)) == 300
    assert stopped_at(rule, np.repeat([0.0, 5.0, 4.0, 3.0, 2.0, 1.0], 5)) is None


def settings(max_iterations):
    return resolve_overrides([f"training.max_iterations={max_iterations}"]).training


def test_the_published_budget_has_the_published_rule():
    assert stopping_rule(settings(20_000)) == StoppingRule(start=5000, interval=10, strip=50, strips=5, smoothing=50)


def test_a_smaller_budget_scales_start_and_smoothing():
    rule = stopping_rule(settings(2000))
    assert (rule.start, rule.smoothing) == (500, 5)


def test_a_short_run_that_recovers_is_not_stopped():
    scores = np.concatenate([np.linspace(-1.5, -2.1, 30), np.linspace(-2.1, -1.0, 170)])
    assert stopped_at(stopping_rule(settings(2000)), scores) is None


@pytest.mark.parametrize("max_iterations", [250, 260, 300])  # the rule acts at 300 at the earliest
def test_a_run_too_short_to_stop_holds_nothing_out(max_iterations):
    train = Regression(np.zeros((20, 2)), np.zeros((20, 1)))
    assert stopping_rule(settings(max_iterations)) is None
    kept, held = hold_out(train, settings(max_iterations), seed=0)
    assert len(kept.X) == 20
    assert held is None


def test_the_shortest_run_with_a_rule_can_be_stopped_before_its_end():
    assert stopped_at(stopping_rule(settings(301)), np.linspace(1, 0, 30)) == 300


def test_held_out_rows_and_the_others_are_all_training_rows_once():
    train = Regression(np.arange(40.0).reshape(20, 2), np.arange(20.0)[:, None])
    kept, held = hold_out(train, settings(2000), seed=3)
    assert sorted([*kept.Y[:, 0], *held.Y[:, 0]]) == list(range(20))
    assert len(held.Y) == 2


# The paper's way and its code's ---------------------------------------------------------------------------------------


def described(*overrides):
    return resolve_overrides(["dataset=energy", *overrides])


@pytest.mark.parametrize(
    ("protocol", "task", "stops"),
    [
        ("lindinger2020", "interpolation", True),
        ("lindinger2020", "extrapolation", True),
        ("lindinger2020_code", "interpolation", False),
        ("lindinger2020_code", "extrapolation", True),
    ],
)
def test_the_published_code_stops_early_in_the_extrapolation_study_alone(protocol, task, stops):
    rows = Regression(np.zeros((50, 2)), np.zeros((50, 1)))
    for method in ("mf", "star"):
        training = described(f"protocol={protocol}", f"task={task}", f"method={method}").training
        assert training.early_stopping is stops
        assert (hold_out(rows, training, 0)[1] is not None) is stops
    assert not described(f"protocol={protocol}", f"task={task}", "method=sgp").training.early_stopping


def test_the_codes_protocol_differs_from_the_papers_in_its_settings_only():
    paper, code = (described(f"protocol={name}") for name in ("lindinger2020", "lindinger2020_code"))
    assert code.directory != paper.directory
    assert code.config_hash != paper.config_hash
    own = {"protocol": "lindinger2020_code", "training": paper.config["training"] | {"early_stopping": False}}
    assert code.config == paper.config | own


def test_the_codes_protocol_starts_the_noise_at_the_variance_of_y():
    paper, code = (described(f"protocol={name}", "method=sghmc") for name in ("lindinger2020", "lindinger2020_code"))
    assert paper.method.likelihood_variance == 0.01
    own = {"protocol": "lindinger2020_code", "method": paper.config["method"] | {"likelihood_variance": 1.0}}
    assert code.config == paper.config | own
    assert described("protocol=lindinger2020_code", "method=mf").method.likelihood_variance == 0.01


def test_budget_and_command_line_override_a_protocols_task_settings():
    given = ("protocol=lindinger2020_code", "task=extrapolation", "method=mf")
    assert not described(*given, "budget=laptop").training.early_stopping
    assert not described(*given, "training.early_stopping=false").training.early_stopping


@pytest.mark.full
@pytest.mark.parametrize("protocol", ["lindinger2020", "lindinger2020_code"])
def test_a_budget_overrides_the_task_and_method_settings_of_a_protocol(protocol):
    rows = ("learning_rate", "batch_size", "num_samples", "average_last")
    settings = {
        "mf": rows,
        "star": rows,
        "sgp": ("learning_rate", "max_iterations"),
        "sghmc": ("learning_rate", "batch_size", "thinning"),
    }
    wanted = {
        "interpolation": {
            "mf": (0.04, 1024, 1, 0.05),
            "star": (0.02, 1024, 1, 0.05),
            "sgp": (0.005, 1000),
            "sghmc": (0.015, 2048, 0.008),
        },
        "extrapolation": {
            "mf": (0.01, 2560, None, 0.0),
            "star": (0.01, 2560, None, 0.0),
            "sgp": (0.005, 2000),
            "sghmc": (0.02, 512, 0.0125),
        },
    }
    for task, of_methods in wanted.items():
        for method, values in of_methods.items():
            run = described(f"protocol={protocol}", "budget=laptop", f"task={task}", f"method={method}")
            assert tuple(getattr(run.training, name) for name in settings[method]) == values
            if method in ("mf", "star"):
                assert run.method.hidden_scale == 1e-5


@pytest.mark.parametrize("method", ["mf", "star"])
@pytest.mark.parametrize("task", ["interpolation", "extrapolation"])
@pytest.mark.parametrize("protocol", ["hernandez2018", "jain2021"])
def test_a_budget_keeps_another_protocols_minibatch_rows(protocol, task, method):
    """Those of laptop are for lindinger2020's number of paths."""
    given = (f"protocol={protocol}", f"task={task}", f"method={method}")
    published, laptop = (described(*given, f"budget={budget}").training for budget in ("paper", "laptop"))
    assert (laptop.batch_size, laptop.num_samples) == (published.batch_size, published.num_samples)


@pytest.mark.parametrize("name", [name for name in groups.names("experiment") if name.startswith("lindinger2020")])
def test_published_items_stop_by_the_papers_rule(name):
    assert load(name).protocol == "lindinger2020"


@pytest.mark.parametrize("rows", [277, 1439, 40_000])
def test_a_smaller_budget_keeps_aepmcms_paths(rows):
    """log of a mean over paths is another objective with fewer of them, which the ELBO's mean is not."""
    training = resolve_overrides(["method=aepmcm", "protocol=lindinger2020", "budget=laptop"]).training.for_rows(rows)
    assert (training.batch_size, training.num_samples) == (512, 5)


@pytest.mark.full
@pytest.mark.parametrize(
    ("method", "interpolation", "extrapolation"),
    [
        ("mf", 0.04, 0.01),
        ("star", 0.02, 0.01),
        ("aepmcm", 0.02, 0.01),
        ("fully_factorised", 0.02, 0.01),
        ("sod", 0.02, 0.02),
    ],
)
def test_laptop_steps_are_shorter_in_extrapolation_except_for_subsets(method, interpolation, extrapolation):
    """results/laptop/README.md, "Extrapolation": by scores on splits 10 and 11."""
    given = [f"method={method}", "protocol=lindinger2020", "budget=laptop"]
    for task, rate in (("interpolation", interpolation), ("extrapolation", extrapolation)):
        assert resolve_overrides([*given, f"task={task}"]).training.learning_rate == rate
