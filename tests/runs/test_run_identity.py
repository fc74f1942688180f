"""A setting that changes a result changes the run's directory and hash; other settings do not."""

import fit_once
import pytest

from dgpbench.config.settings import declared
from dgpbench.data.cells import TableSettings
from dgpbench.errors import UserError
from dgpbench.runs.resolve import documented, resolve_overrides

SETTINGS = {key: setting for key, setting, _ in documented()}
DATA = "dataset=step"
# They determine where and how a run is executed, not what it computes.
OUTSIDE = {
    "results_dir": "elsewhere",
    "num_threads": "2",
    "device": "auto",
    "plot": "false",
    "progress": "false",
    "timeout_minutes": "5",
}
# Where a setting lives, when star does not have it.
HOMES = {
    "method.power": ("method=aep",),
    "method.propagation": ("method=aep",),
    "method.hidden_mean_spread": ("method=aep",),
    "method.subset": ("method=sod",),
    "method.start": ("method=sod",),
    "method.hidden_variance": ("method=sod",),
    "method.output_variance": ("method=sod",),
    "method.layer_noise": ("method=sod",),
    "method.step_size": ("method=sghmc",),
    "method.friction": ("method=sghmc",),
    "method.freeze": ("method=sghmc",),
    "method.noise": ("method=sghmc",),
    "training.burn_in": ("method=sghmc",),
    "training.window": ("method=sghmc",),
    "training.thinning": ("method=sghmc",),
    "method.output_noise": ("method=fully_factorised",),
    "method.row_variance": ("method=fully_factorised",),
    "method.approximation": ("method=sgpr",),
    "method.max_rows": ("method=gpr",),
    "method.blocks": ("method=custom",),
    "method.blocks_file": ("method=custom",),
    "method.beta": ("method=dspp",),
    "method.num_sites": ("method=dspp",),
    "method.num_importance_samples": ("method=mf_lv",),
    "training.natgrad_gamma": ("method=mf", "optimiser=natgrad_adam"),
    "training.epochs": ("protocol=hernandez2018",),
    "task.num_folds": ("task=folds",),
}
OTHER = {
    "split": "split=3",
    "seed": "seed=3",
    "precision": "precision=float32",
    "init_from": "init_from=another/run",
    "prediction.num_samples": "prediction.num_samples=101",
    "method.num_layers": "method.num_layers=2",
    "method.width": "method.width=4",
    "method.kernel": "method.kernel=matern32",
    "method.output_start": "method.output_start=sgpr",
    "method.white_noise": "method.white_noise=0.002",
    "method.mean_function": "method.mean_function=zero",
    "method.bound": "method.bound=tight",
    "method.structure": "method.structure=stripes",
    "method.blocks": "method.blocks=[{layers: [2, 1], gps: all}]",
    "method.propagation": "method.propagation=sample",
    "method.subset": "method.subset=random",
    "method.start": "method.start=uniform",
    "method.freeze": "method.freeze=last",
    "method.noise": "method.noise=corrected",
    "method.output_noise": "method.output_noise=0.03",
    "method.approximation": "method.approximation=fitc",
    "training.epochs": "training.epochs=77",
    "training.max_seconds": "training.max_seconds=77",
}
BOOLEANS = {
    "method.ard": "false",
    "method.train_hidden_variance": "true",
    "method.train_inducing_inputs": "false",
    "method.whiten": "false",
    "method.marginalise": "false",
    "training.early_stopping": "false",
    "training.trace_test": "true",
}
# A user's own table is known by the digest of what was read, which is in the directory's name.
TABLE = {f"dataset.{key}" for key in declared(TableSettings)}
MATTER = sorted(set(SETTINGS) - set(OUTSIDE) - TABLE)
# What no list of settings has, and yet decides a result.
CHOICES = [
    "dataset.seed=1",
    "dataset.num_rows=90",
    "dataset=bimodal",
    "task=folds",
    "method=mf",
    "protocol=jain2021",
]


def changed(key, folder):
    """An override with a value that the key does not have by itself."""
    if key == "method.blocks_file":
        path = folder / "blocks.yaml"
        path.write_text("- {layers: [2, 1], gps: all}\n")
        return f"{key}={path}"
    if key in OTHER:
        return OTHER[key]
    if key in BOOLEANS:
        return f"{key}={BOOLEANS[key]}"
    return f"{key}=3" if SETTINGS[key].kind is int else f"{key}=0.123"


@pytest.fixture(scope="module")
def plain():
    """The identity without the changed setting, by the settings that it goes with; each is computed once."""
    known = {}

    def of(*home):
        if home not in known:
            known[home] = fit_once.identity(DATA, *home)
        return known[home]

    return of


@pytest.mark.parametrize("key", MATTER)
def test_a_setting_that_changes_a_result_makes_another_run(key, plain, tmp_path):
    home = HOMES.get(key, ())
    before, after = plain(*home), fit_once.identity(DATA, *home, changed(key, tmp_path))
    assert after.hash != before.hash
    assert after.directory != before.directory


def test_settings_that_do_not_change_results_make_the_same_run(plain):
    assert set(OUTSIDE) <= set(SETTINGS)
    for key, value in OUTSIDE.items():
        assert fit_once.identity(DATA, f"{key}={value}") == plain(), key


@pytest.mark.parametrize("choice", CHOICES)
def test_another_choice_is_another_run(choice, plain):
    before, after = plain(), fit_once.identity(DATA, choice)
    assert after.hash != before.hash
    assert after.directory != before.directory


def test_another_optimiser_is_another_run(plain):
    before, after = plain("method=mf"), fit_once.identity(DATA, "method=mf", "optimiser=natgrad_adam")
    assert after.hash != before.hash
    assert after.directory.name.endswith("+optimiser=natgrad_adam")


def test_setting_the_default_values_is_the_same_run(plain):
    asked = ("training.learning_rate=5e-3", "method.num_inducing=128.0", "seed=0", "optimiser=adam")
    assert fit_once.identity(DATA, *asked) == plain()


def test_two_budgets_are_two_runs_though_what_they_set_is_equal(plain):
    assert fit_once.identity(DATA, "budget=laptop").directory != plain().directory
    assert fit_once.identity(DATA, "budget=laptop").hash != plain().hash


def test_couplings_are_read_from_a_file_below_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "blocks.yaml").write_text("- {layers: [2, 1], gps: all}\n")
    run = resolve_overrides(["method=custom", 'method.blocks_file="~/blocks.yaml"', "dataset=boston"])
    assert run.method.blocks == [{"layers": [2, 1], "gps": "all"}]


def test_a_file_of_couplings_with_an_impossible_date_is_refused(tmp_path):
    (tmp_path / "blocks.yaml").write_text("- 2024-13-45\n")
    with pytest.raises(UserError, match=r"method.blocks_file=.* cannot be read: month must be in 1..12"):
        resolve_overrides(["method=custom", f"method.blocks_file={tmp_path}/blocks.yaml", "dataset=boston"])
