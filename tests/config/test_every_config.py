"""Every file of conf/ composes, resolves, has a name and a command; keys and settings match."""

import itertools
from dataclasses import replace

import pytest

from dgpbench.config import groups
from dgpbench.config.compose import FACTS, compose
from dgpbench.config.settings import declared
from dgpbench.runs.resolve import documented, keys, resolve, resolve_overrides

FILES = [(group, name) for group in groups.GROUPS for name in groups.names(group)]
METHODS = groups.names("method")


@pytest.mark.parametrize(("group", "name"), FILES)
def test_a_file_composes_into_a_valid_run(group, name):
    method = []
    if group == "optimiser":
        able = [m for m in METHODS if name in resolve_overrides([f"method={m}"]).card.optimisers]
        method = [f"method={able[0]}"]
    run = resolve_overrides([f"{group}={name}", *method])
    assert run.training.for_rows(1000).max_iterations >= 1


@pytest.mark.parametrize(("group", "name"), FILES)
def test_a_file_starts_with_a_description_and_a_command(group, name):
    text = (groups.folder() / group / f"{name}.yaml").read_text()
    comment = "".join(itertools.takewhile(lambda line: line.startswith("#"), text.splitlines(keepends=True)))
    assert "dgpbench run" in comment


@pytest.mark.parametrize(("group", "name"), [(g, n) for g, n in FILES if g != "optimiser"])
def test_a_file_names_itself_and_has_a_title(group, name):
    described = groups.describe(group, name)
    assert described["name"] == name
    assert described["title"]


@pytest.mark.parametrize("method", METHODS)
def test_a_methods_file_has_exactly_the_keys_that_its_family_declares(method):
    values = compose([f"method={method}"]).values
    run = resolve_overrides([f"method={method}"])
    for section in ("method", "training", "prediction", "task"):
        required = set(declared(type(getattr(run, section))))
        assert {key for key in values[section] if key not in FACTS} == required


def test_every_setting_has_a_help_text_and_belongs_to_something():
    found = documented()
    assert all(setting.help and setting.describe() for _, setting, _ in found)
    assert set(keys()) == {key for key, _, _ in found}
    assert {"split", "results_dir", "method.structure", "training.thinning", "task.num_folds"} <= set(keys())


@pytest.mark.parametrize("method", METHODS)
def test_the_usual_optimiser_of_a_method_is_the_first_that_it_lists(method):
    run = resolve_overrides([f"method={method}"])
    assert run.training.optimiser == run.card.optimisers[0]


def test_a_budget_scales_the_schedule_of_a_protocol():
    published = resolve_overrides(["budget=paper"]).training.max_iterations
    assert resolve_overrides(["budget=laptop"]).training.max_iterations == published // 10


@pytest.mark.parametrize(("dataset", "subset"), [("boston", 50), ("wine_red", 50), ("naval", 100)])
def test_jains_subsets_are_smaller_on_small_data_sets(dataset, subset):
    wanted = dict.fromkeys(("sod", "sod_random"), subset) | dict.fromkeys(("mf", "mf_fixed_z", "sgp", "sghmc"), 100)
    for method, num_inducing in wanted.items():
        run = resolve_overrides([f"method={method}", f"dataset={dataset}", "protocol=jain2021"])
        assert run.method.num_inducing == num_inducing


def spoken_of(described):
    """Return (group, names) for every part of a budget or protocol with lines for named choices."""
    for group in ("method", "dataset", "task", "protocol"):
        lines = described.get(f"{group}s") or {}
        yield group, [name for names in lines for name in names.split(",")]
        for settings in lines.values():
            yield from spoken_of(settings)


@pytest.mark.parametrize(("group", "name"), [(g, n) for g, n in FILES if g in ("budget", "protocol")])
def test_every_key_of_a_budget_or_protocol_exists_once(group, name):
    """Only the first line that names a method is used."""
    for kind, named in spoken_of(groups.describe(group, name)):
        assert set(named) <= set(groups.names(kind))
        assert len(named) == len(set(named))


@pytest.mark.full
def test_a_budget_keeps_the_rows_that_a_protocol_has_for_a_method():
    """lindinger2020 takes more rows a step at laptop, and aep as few as published; the thesis' epochs count its own."""
    for protocol in ("lindinger2020", "hernandez2018"):
        published, laptop = (
            resolve_overrides([f"budget={budget}", "method=aep", f"protocol={protocol}", "method.num_layers=2"])
            for budget in ("paper", "laptop")
        )
        assert laptop.training.batch_size == published.training.batch_size


def test_the_thesis_trains_three_tables_for_500_epochs_and_others_for_2000():
    """Hernandez-Munoz (2018), Sec. 5.1."""
    for name in groups.names("dataset"):
        if name in ("boston", "concrete", "energy", "kin8nm", "wine_red", "yacht", "naval", "power", "protein"):
            run = resolve_overrides(["protocol=hernandez2018", "method=aep", "method.num_layers=2", f"dataset={name}"])
            assert run.training.epochs == (500 if name in ("naval", "power", "protein") else 2000)


def test_the_command_line_wins_over_budget_protocol_and_method():
    run = resolve_overrides(["budget=smoke", "training.max_iterations=7", "method.num_inducing=9"])
    assert (run.training.max_iterations, run.method.num_inducing) == (7, 9)


def test_values_that_the_choices_give_anyway_are_not_part_of_the_identity():
    run = resolve_overrides(["training.learning_rate=0.005", "method.num_layers=2", "num_threads=2"])
    assert run.changed == {}


def test_a_changed_value_is_part_of_the_identity_with_its_name():
    assert resolve_overrides(["training.learning_rate=0.01"]).changed == {"training.learning_rate": 0.01}
    assert resolve_overrides(["method=mf", "optimiser=natgrad_adam"]).changed == {"optimiser": "natgrad_adam"}


def test_an_identity_gives_the_command_line_that_makes_it():
    texts = [
        "method=mf",
        "dataset=energy",
        "optimiser=natgrad_adam",
        "training.natgrad_gamma=0.02",
        "split=3",
        "seed=1",
    ]
    run = resolve_overrides([*texts, "method.num_layers=2", "budget=laptop"])
    assert resolve_overrides(run.identity.arguments()).directory == run.directory


def test_composing_twice_equals_a_fresh_composition():
    first = resolve_overrides(["method=star", "training.batch_size=7"])
    again, other = resolve(compose(["method=star"])), resolve_overrides(["method=star", "dataset=energy"])
    assert (first.training.batch_size, again.training.batch_size) == (7, 512)
    assert replace(other, dataset=again.dataset, dataset_name=again.dataset_name) == again


@pytest.mark.parametrize(
    ("overrides", "objective"),
    [
        ("method=mf", "ELBO"),
        ("method=mf method.bound=tight", "tight ELBO"),
        ("method=mf method.bound=predictive", "predictive log-likelihood"),
        ("method=dspp", "predictive log-likelihood"),
        ("method=mf_lv", "importance-weighted ELBO"),
        ("method=sghmc", "log joint"),
    ],
)
def test_a_run_names_the_objective_that_it_trains(overrides, objective):
    assert resolve_overrides(overrides.split()).objective == objective
