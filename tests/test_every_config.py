"""Every file of conf/ composes, resolves, names itself and says how to run it."""

import itertools

import pytest

from dgpbench import config
from dgpbench.settings import SETTINGS

FILES = [(group, name) for group in config.GROUPS for name in config.choices(group)]
CARRIERS = {"optimiser": {"lbfgs": ["method=gpr"]}}
# Facts of a method, not settings: no user changes them on the command line.
FACTS = {"name", "title", "citation", "_target_", "single_layer", "optimisers", "precisions"}


@pytest.mark.parametrize(("group", "name"), FILES)
def test_a_file_composes_into_a_valid_configuration(group, name):
    carriers = CARRIERS.get(group, {}).get(name)
    if group == "optimiser" and carriers is None:
        able = [
            m
            for m in config.choices("method")
            if name in config.resolve(config.compose([f"method={m}"]))["method"]["optimisers"]
        ]
        carriers = [f"method={able[0]}"]
    resolved = config.resolve(config.compose([f"{group}={name}", *(carriers or [])]))
    assert resolved["training"]["max_iterations"] is None or resolved["training"]["max_iterations"] >= 1


@pytest.mark.parametrize(("group", "name"), FILES)
def test_a_file_begins_with_what_it_is_and_a_command_that_runs_it(group, name):
    text = (config.config_directory() / group / f"{name}.yaml").read_text()
    comment = "".join(itertools.takewhile(lambda line: line.startswith("#"), text.splitlines(keepends=True)))
    assert "dgpbench run" in comment


@pytest.mark.parametrize(("group", "name"), [(g, n) for g, n in FILES if g != "optimiser"])
def test_a_file_names_itself_and_has_a_title(group, name):
    described = config.describe(group, name)
    assert described["name"] == name
    assert described["title"]


@pytest.mark.parametrize("method", config.choices("method"))
def test_every_key_of_a_method_is_documented(method):
    composed = config.compose([f"method={method}"])
    for section in ("method", "training", "prediction"):
        undocumented = {f"{section}.{key}" for key in composed[section] if key not in FACTS} - set(SETTINGS)
        assert not undocumented


def test_every_documented_key_belongs_to_something():
    known = set()
    for group, name in FILES:
        known |= {f"{key}" for key in config._leaves(_composed(group, name))}
        known |= {f"{section}.{key}" for section in ("method", "training") for key in _composed(group, name)[section]}
    assert set(SETTINGS) <= known


def _composed(group, name):
    from omegaconf import OmegaConf

    return OmegaConf.to_container(config.compose([f"{group}={name}"]), resolve=False)


def test_a_budget_scales_the_schedule_of_a_protocol():
    published = config.resolve(config.compose(["budget=paper"]))["training"]["max_iterations"]
    assert config.resolve(config.compose(["budget=laptop"]))["training"]["max_iterations"] == published // 10


def test_the_command_line_wins_over_budget_protocol_and_method():
    resolved = config.resolve(config.compose(["budget=smoke", "training.max_iterations=7", "method.num_inducing=9"]))
    assert (resolved["training"]["max_iterations"], resolved["method"]["num_inducing"]) == (7, 9)


def test_values_that_the_choices_give_anyway_are_not_part_of_the_identity():
    resolved = config.resolve(config.compose(["training.learning_rate=0.005", "method.num_layers=2", "num_threads=2"]))
    assert config.changed_settings(resolved) == {}


def test_a_changed_value_is_part_of_the_identity_with_its_name():
    resolved = config.resolve(config.compose(["training.learning_rate=0.01"]))
    assert config.changed_settings(resolved) == {"training.learning_rate": 0.01}
