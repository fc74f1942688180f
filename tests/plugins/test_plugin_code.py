"""The files of a plug-in: invalid ones, saved state, and the digest of its code."""

import hashlib
import pickle
import subprocess
import sys

import fit_once
import pytest
from one_record import forge
from plugin_files import QUICK, changed, run, saved
from test_check_method import plugin

from dgpbench.methods.interface import settings_class
from dgpbench.plugins import load_file
from dgpbench.report.collect import collect
from dgpbench.report.html_grids import with_groups


def test_annotations_may_be_texts(tmp_path):
    path = changed(tmp_path, "of_texts", ("from dataclasses", "from __future__ import annotations\nfrom dataclasses"))
    record = run(tmp_path, "of_texts", f"--plugin={path}", "method.num_features=30").record
    assert record["config"]["method"]["num_features"] == 30


@pytest.mark.parametrize(
    ("name", "piece", "other", "words"),
    [
        ("of_a_tuple", "noise: float", "noise: tuple[float, ...]", "a setting is int, float, bool, str or list"),
        ("of_a_name", "noise: float", "family: str = setting('f', default='a')\n    noise: float", "named family"),
        (
            "of_layers",
            "noise: float",
            "num_layers: int = setting('L', default=3)\n    noise: float",
            "named num_layers",
        ),
        (
            "of_an_optimiser",
            "noise: float",
            "optimiser: str = setting('o', default='a')\n    noise: float",
            "named opt",
        ),
        ("of_no_budgets", "fit, Ridge)", "fit, Ridge, budgets={'smoke': 3})", "budgets must map budgets to settings"),
        ("of_a_budget", "fit, Ridge)", "fit, Ridge, budgets={'smok': {}})", "unknown budget 'smok'"),
        (
            "of_a_value",
            "fit, Ridge)",
            "fit, Ridge, budgets={'smoke': {'b': 1}})",
            "budget smoke sets b, which is not one",
        ),
        ("of_an_exit", "import numpy", "raise SystemExit\nimport numpy", "cannot be loaded: SystemExit"),
    ],
)
def test_a_plug_in_that_cannot_be_used_is_refused(tmp_path, capsys, name, piece, other, words):
    path = changed(tmp_path, name, (piece, other))
    assert fit_once.command("validate", f"method={name}", *QUICK, f"--plugin={path}") == 2
    assert words in capsys.readouterr().err


def test_a_name_with_a_hyphen_is_refused(tmp_path, capsys):
    path = changed(tmp_path, "of_hyphens", ('Method("of_hyphens"', 'Method("of-hyphens"'))
    assert fit_once.command("validate", "method=mf", *QUICK, f"--plugin={path}") == 2
    assert "use letters, digits and _" in capsys.readouterr().err


def test_a_failed_fit_saves_nothing_and_reports_why(tmp_path, capsys):
    path = changed(
        tmp_path, "failing",
        ("    return Fitted(", "    raise ValueError('no such thing')\n    return Fitted("),
        ("fit, Ridge)", "fit, Ridge, restore=lambda settings, arrays: None)"),
    )  # fmt: skip
    words = ("method=failing", "dataset=diabetes", f"--plugin={path}", "--output", str(tmp_path / "model"))
    assert fit_once.command("fit", *words, "progress=false") == 1
    assert capsys.readouterr().err.endswith("the fit failed, and no model was saved: ValueError: no such thing\n")
    assert not (tmp_path / "model" / "model.json").exists()


@pytest.mark.full
def test_state_that_cannot_be_saved_fails_only_runs_that_save(tmp_path, capsys):
    path = saved(tmp_path, "of_objects", ('"w": self.w', '"w": None'))
    record = run(tmp_path / "of_objects", "of_objects", f"--plugin={path}", status="failed").record
    assert "parameters() has w, which is not an array of numbers or texts" in record["reason"]
    path = saved(tmp_path, "of_nothing", ("Fitted.parameters = ", "unused = "))
    record = run(tmp_path / "of_nothing", "of_nothing", f"--plugin={path}", status="failed").record
    assert "restore= is set, so Fitted needs a method parameters()" in record["reason"]
    path = saved(
        tmp_path, "of_a_generator", (", restore=restore", ""), ('{"W": self.W', '(_ for _ in "abc") or {"W": self.W')
    )
    run(tmp_path / "of_a_generator", "of_a_generator", f"--plugin={path}")
    path = saved(tmp_path, "of_another_noise", ("noise=settings.noise", "noise=1.0"))
    assert fit_once.command("check-method", "of_another_noise", f"--plugin={path}") == 1
    assert "restore(settings, parameters()) predicts otherwise" in capsys.readouterr().out


def test_a_model_without_densities_is_not_saved(tmp_path, capsys):
    path = saved(
        tmp_path,
        "of_quantiles",
        ("import Gaussian, ", "import Quantiles, "),
        (
            "return Gaussian(F @ self.w, self.noise",
            "return Quantiles([0.1, 0.9], np.outer([1, 2], F @ self.w)); (self.noise",
        ),
    )
    words = ("method=of_quantiles", "dataset=diabetes", f"--plugin={path}", "--holdout", "0", "progress=false")
    assert fit_once.command("fit", *words, "--output", str(tmp_path / "model")) == 2
    assert "method=of_quantiles predicts quantiles; a saved model must predict densities" in capsys.readouterr().err
    assert not (tmp_path / "model" / "model.json").exists()


@pytest.mark.full
def test_a_list_of_settings_is_each_fits_own(tmp_path):
    path = changed(
        tmp_path,
        "of_lists",
        ("    noise: float", "    widths: list = setting('w', default=(3, 2))\n    noise: float"),
        (
            "    return Fitted(",
            "    assert settings.widths == [3, 2]\n    settings.widths.append(1)\n    return Fitted(",
        ),
    )
    for split in (0, 1):
        record = run(tmp_path / str(split), "of_lists", f"--plugin={path}", f"split={split}").record
        assert record["config"]["method"]["widths"] == [3, 2]


def test_a_file_may_build_on_a_baseline_and_leaves_it_as_it_is(tmp_path):
    path = tmp_path / "derived.py"
    path.write_text(
        "from dataclasses import replace\n"
        "from dgpbench.baselines.linear import BAYESIAN_RIDGE\n"
        "METHOD = replace(BAYESIAN_RIDGE, name='built_on_ridge')\n"
    )
    assert load_file(path) == ["built_on_ridge"]


def test_a_worker_keeps_the_code_that_it_started_with(tmp_path):
    """Its file may change while a long item is running."""
    path = plugin(tmp_path, "edited")
    load_file(path)
    settings = settings_class("plug-in edited")(name="edited", num_layers=1, num_features=7, noise=0.2)
    sent = pickle.dumps(settings)
    path.write_text(path.read_text() + "# edited\n")
    assert pickle.loads(sent) == settings


@pytest.mark.full
def test_the_report_keeps_runs_of_other_code_apart(tmp_path):
    """Two lines for one identity, since a mean over two versions of code would be of neither."""
    path = plugin(tmp_path, "in_two_codes")
    record = run(tmp_path, "in_two_codes", f"--plugin={path}").directory / "record.json"
    other = record.parents[1] / "split1-seed0" / "record.json"
    other.parent.mkdir()
    other.write_bytes(record.read_bytes())
    forge(other, lambda each: (each["identity"].update(split=1), each["config"]["method"].update(code="0" * 16)))
    frame = with_groups(collect(tmp_path / "results"))
    assert list(frame["group"]) == ["g1", "g2"]
    assert all(frame["settings"].str.fullmatch("values [0-9a-f]{8}"))


def test_modules_beside_a_plug_in_can_be_imported(tmp_path):
    (tmp_path / "beside_it.py").write_text("HIDDEN = 12\n")
    path = changed(tmp_path, "with_a_neighbour", ("import numpy", "from beside_it import HIDDEN\nimport numpy"))
    assert load_file(path) == ["with_a_neighbour"]


def test_a_record_has_the_versions_of_what_the_code_imports(tmp_path):
    assert run(tmp_path, "bayesian_ridge").record["versions"]["scikit-learn"]


@pytest.mark.full
def test_a_failure_of_other_code_does_not_count(tmp_path):
    path = changed(tmp_path, "mended", ("    return Fitted(", "    raise ValueError('not yet')\n    return Fitted("))
    words = ["method=mended", "dataset=boston", "split=0", "budget=smoke", f"results_dir={tmp_path}/r"]
    assert fit_once.command("run", *words, *fit_once.QUIET, f"--plugin={path}") == 1
    plan = [sys.executable, "-m", "dgpbench", "plan", "dgpbench_uci", *words, "--plugin", str(path)]
    assert "1 failed" in subprocess.run(plan, capture_output=True, text=True, timeout=200).stdout
    path.write_text(path.read_text().replace("    raise ValueError('not yet')\n", ""))
    assert "1 missing" in subprocess.run(plan, capture_output=True, text=True, timeout=200).stdout


@pytest.mark.full
def test_a_model_is_used_with_the_code_that_it_was_fitted_with(tmp_path):
    """In processes of their own, as a user meets it."""
    path = saved(tmp_path, "kept")
    (tmp_path / "table.csv").write_text("a,y\n" + "".join(f"{a},{a * a}\n" for a in range(30)))
    data = ("dataset=csv", f"dataset.path={tmp_path}/table.csv", "dataset.target=y", "dataset.keep=[a]")

    def outcome(*words: str):
        command = [sys.executable, "-m", "dgpbench", *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=200)

    model, table = str(tmp_path / "model"), str(tmp_path / "table.csv")
    assert outcome("fit", "method=kept", *data, "--plugin", str(path), "--output", model).returncode == 0
    assert outcome("predict", model, table, "--plugin", str(path)).returncode == 0
    alone = outcome("predict", model, table)
    assert (alone.returncode, alone.stderr) == (
        2,
        f"dgpbench: {model} cannot be loaded: the method kept is a plug-in that is not loaded; name its file "
        "with --plugin FILE\n",
    )
    path.write_text(path.read_text().replace("np.cos", "np.sin"))
    other = outcome("predict", model, table, "--plugin", str(path))
    assert other.returncode == 2
    assert "another version of the code of kept" in other.stderr


def test_a_table_leaves_out_runs_of_other_code(tmp_path, capsys):
    path = plugin(tmp_path, "shown_new")
    record = run(tmp_path, "shown_new", f"--plugin={path}").directory / "record.json"
    words = ("table", "dgpbench_uci", "method=shown_new", "budget=smoke", "split=0", f"results_dir={tmp_path}/results")
    text = record.read_text()
    folder = record.parents[1] / "split0-seed0"
    target = tmp_path / "results" / "runs" / "interpolation" / "boston" / folder.relative_to(record.parents[3])
    target.mkdir(parents=True)
    (target / "record.json").write_text(text)
    forge(target / "record.json", lambda record: record["identity"].update(dataset="boston"))
    assert fit_once.command(*words, "dataset=boston", "--metric", "rmse") == 0
    assert "1 of 1 cells" not in capsys.readouterr().out
    forge(target / "record.json", lambda record: record["config"]["method"].update(code="0" * 16))
    assert fit_once.command(*words, "dataset=boston", "--metric", "rmse") == 0
    assert "1 of 1 cells are incomplete" in capsys.readouterr().out


def test_a_changed_module_beside_a_plug_in_is_a_change_of_its_code(tmp_path, monkeypatch):
    """Also a module of an imported package; installed packages are identified by their version."""
    from dgpbench.methods.plugin_code import Source

    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "own_package").mkdir()
    names = ("own_helper.py", "own_package/__init__.py", "own_package/core.py", "own_package/inner.py")
    files = [tmp_path / name for name in names]
    for file in files:
        file.write_text("SHIFT = 5.0\n")
    files[1].write_text("from .core import SHIFT\n")
    files[-1].write_text("from . import core\n")
    path = tmp_path / "with_helpers.py"
    path.write_text(
        "import numpy.linalg\nfrom own_helper import SHIFT\n\ndef f():\n    from own_package import inner\n"
    )
    before = [Source.of_file(path).digest]
    for file in files:
        file.write_text("SHIFT = 0.0\n")
        before.append(Source.of_file(path).digest)
    assert len(set(before)) == 5
    path.write_text("import numpy.linalg\n")
    assert Source.of_file(path).digest == hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    compiled = tmp_path / "compiled.so"
    compiled.write_bytes(b"\x7fELF\x00")
    assert Source.of_file(compiled).digest == hashlib.sha256(compiled.read_bytes()).hexdigest()[:16]
