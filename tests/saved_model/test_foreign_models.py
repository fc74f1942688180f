"""A model from elsewhere is checked like a form: damage and malice end in one sentence, before memory is taken."""

import hashlib
import json
import os
import subprocess
import sys
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from dgpbench import load
from dgpbench.config.canonical import config_hash

sys.path.insert(0, str(Path(__file__).parent))
import changes

NUMBER, MOST_BYTES = 300, 2 * 2**30


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """Outcomes of random changes of saved models, half of them with an updated digest."""
    command = [sys.executable, changes.__file__, str(tmp_path_factory.mktemp("foreign")), str(NUMBER)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.full
def test_any_change_of_a_saved_model_is_detected(ended):
    unnoticed = [each for each in ended["ended"] if each["vouched"] and each["outcome"] not in ("refused", "same")]
    assert unnoticed == []
    assert Counter(each["outcome"] for each in ended["ended"] if each["vouched"])["refused"] > 0.9 * NUMBER / 2


@pytest.mark.full
def test_a_foreign_model_is_refused_or_predicts(ended):
    met = Counter(each["outcome"] for each in ended["ended"])
    assert set(met) <= {"refused", "same", "other"}, [each for each in ended["ended"] if each["outcome"] not in met]
    assert min(met.values()) > 1


@pytest.mark.full
def test_changed_models_take_little_memory(ended):
    assert ended["peak"] < MOST_BYTES


@pytest.fixture(scope="module")
def gpr(tmp_path_factory):
    """A small saved model."""
    folder = tmp_path_factory.mktemp("gpr")
    changes.save(folder, {"gpr": changes.FEW})
    return folder / "gpr"


def another(gpr, tmp_path, change=lambda facts: None):
    """Copy a saved model, change its facts and update their digest."""
    facts = json.loads((gpr / "model.json").read_text())
    change(facts)
    facts.pop("digest", None)
    target = tmp_path / "model"
    target.mkdir()
    (target / "model.json").write_text(json.dumps(facts | {"digest": config_hash(facts)}))
    (target / "parameters.npz").write_bytes((gpr / "parameters.npz").read_bytes())
    return target


@pytest.mark.full
@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda facts: facts["model"].update(family="martian"), "unknown family martian"),
        (lambda facts: facts["model"].update(family="..exact"), r"unknown family \.\.exact"),
        (lambda facts: facts["model"].update(num_samples=0), "prediction.num_samples=0 cannot be used"),
        (lambda facts: facts["model"].update(num_samples=1e300), "prediction.num_samples=1e.300 cannot be used"),
        (lambda facts: facts["model"]["scaler"].update(scale_y=0), "scale_y must be above 0"),
        (lambda facts: facts["model"]["scaler"].update(kept=[0]), "disagree about the features"),
        (lambda facts: facts["model"]["scaler"].update(kept=[0, 1, 2, 3, 9]), "increasing numbers of the 5 features"),
        (lambda facts: facts["model"]["columns"]["columns"][0].update(kind="x"), "or have unknown kinds"),
        (lambda facts: facts["model"]["columns"]["columns"][0].update(name=3), "columns.columns.name is 3, not a text"),
        (lambda facts: facts.update(files=None), "TypeError"),
        (lambda facts: facts["about"].pop("choices"), "it lacks 'choices'"),
        (lambda facts: facts["about"]["choices"].update(seed="x"), "choices.seed is 'x', not a whole number"),
    ],
)
def test_an_invalid_field_is_refused_by_its_name(change, sentence, gpr, tmp_path):
    with pytest.raises(ValueError, match=rf"model cannot be loaded: .*{sentence}"):
        load(another(gpr, tmp_path, change))


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED], ids=["header", "compressed"])
def test_an_array_that_is_too_large_is_refused_before_it_is_unpacked(compression, gpr, tmp_path, monkeypatch):
    """One that its header calls 5.6 GB, and one that takes 0.3 GB once it is unpacked."""
    with np.load(gpr / "parameters.npz") as file:
        arrays = dict(file)
    arrays.pop(".kernel.variance")
    swelling = changes.huge(arrays, ".kernel.variance", compression)
    stored = {"bytes": len(swelling), "sha256": hashlib.sha256(swelling).hexdigest()}
    target = another(gpr, tmp_path, lambda facts: facts.update(files={"parameters.npz": stored}))
    (target / "parameters.npz").write_bytes(swelling)
    monkeypatch.setattr(np, "load", lambda *_, **__: pytest.fail("it is read"))
    message = {
        zipfile.ZIP_STORED: r"its header declares float64 \(700000000,\)",
        zipfile.ZIP_DEFLATED: r"\.npy is compressed",
    }
    with pytest.raises(ValueError, match=message[compression]):
        load(target)


@pytest.mark.parametrize(("name", "value"), [("method", {"max_rows": 7}), ("columns", None)])
def test_a_size_that_differs_from_the_arrays_is_refused(name, value, gpr, tmp_path):
    """Arrays with more rows than the method accepts, and one feature fewer than the arrays have."""

    def change(facts):
        facts["model"][name].update(value or {})
        if value is None:
            scaler, columns = facts["model"]["scaler"], facts["model"]["columns"]
            columns["columns"][2]["categories"].pop()
            for each in ("kept", "mean_X", "scale_X"):
                scaler[each].pop()

    with pytest.raises(ValueError, match=r"takes at most 7 training rows|its settings require \(None, 4\)"):
        load(another(gpr, tmp_path, change))


def test_the_threads_of_a_model_are_at_most_the_machines(gpr, tmp_path):
    target = another(gpr, tmp_path, lambda facts: facts["model"].update(num_threads=1_000_000))
    assert load(target).num_threads == os.cpu_count()


def test_a_model_without_a_digest_is_loaded_with_a_warning(gpr, tmp_path, caplog):
    target = another(gpr, tmp_path)
    facts = json.loads((target / "model.json").read_text())
    del facts["digest"]
    (target / "model.json").write_text(json.dumps(facts))
    load(target)
    (warning,) = caplog.records
    assert (warning.name.partition(".")[0], warning.levelname) == ("dgpbench", "WARNING")
    assert "saved by an earlier dgpbench, without a digest" in warning.message


def a_pipe(path):
    path.unlink()
    os.mkfifo(path)


def a_link(path):
    path.unlink()
    path.symlink_to("/dev/zero")


def a_link_outside(path):
    path.rename(path.parent.parent / path.name)
    path.symlink_to(path.parent.parent / path.name)


@pytest.mark.parametrize("name", ["model.json", "parameters.npz"])
@pytest.mark.parametrize("place", [a_pipe, a_link, a_link_outside])
def test_a_model_is_of_plain_files_of_its_own_directory(place, name, gpr, tmp_path):
    target = another(gpr, tmp_path)
    place(target / name)
    with pytest.raises(ValueError, match=f"{name} is missing, or is not a plain file of this directory"):
        load(target)


@pytest.mark.parametrize("name", ["/dev/zero", "../x", "pipe", "model.json"])
def test_a_model_cannot_name_other_files(name, gpr, tmp_path):
    target = another(gpr, tmp_path, lambda facts: facts["files"].update({name: {"bytes": 0, "sha256": ""}}))
    os.mkfifo(target / "pipe")
    with pytest.raises(ValueError, match=r"its files are not parameters\.npz alone"):
        load(target)


@pytest.mark.parametrize(
    "change",
    [
        lambda facts: facts["model"]["method"].update(blocks_file="/dev/zero"),
        lambda facts: facts["about"]["choices"]["overrides"].update({"method.blocks_file": "/dev/zero"}),
    ],
)
def test_a_model_reads_no_path(change, gpr, tmp_path):
    with pytest.raises(ValueError, match=r"a file, (but|and) a model"):
        load(another(gpr, tmp_path, change))


def test_the_path_of_a_models_training_table_is_forgotten(gpr, tmp_path):
    target = another(gpr, tmp_path, lambda facts: facts["model"]["reading"].update(path="/dev/zero", test_path="x"))
    reading = load(target).model_.description.reading
    assert (reading.path, reading.test_path) == (None, None)
