"""``dgpbench validate`` exits with 0, or with 2 and one sentence, before TensorFlow is imported."""

import contextlib
import io
import subprocess
import sys

import pytest
from fault_tools import one_sentence
from hypothesis import given, settings
from hypothesis import strategies as st

from dgpbench.cli import main
from dgpbench.config import groups
from dgpbench.runs.resolve import documented, keys

NUMBERS = st.one_of(
    st.integers(-2, 40),
    st.integers(),
    st.floats(),
    st.sampled_from(["1e400", "-0.0", "nan", "inf", "1e-400", "0x10", "1_000", "1e3"]),
)
WORDS = st.sampled_from(["null", "true", "''", "[]", "{}", "[1,2]", "{a: 1}", "${seed}", "${nothing}", "???"])
TEXTS = st.text(min_size=0, max_size=12)
WORDS_OF_SETTINGS = sorted({word for _, setting, _ in documented() for word in setting.words})
VALUES = st.one_of(NUMBERS, WORDS, TEXTS, st.sampled_from(WORDS_OF_SETTINGS))
KEYS = st.one_of(
    st.sampled_from(sorted(keys())),
    st.sampled_from(["dataset.path", "dataset.target", "dataset.kind", "dataset.name", "task.name", "method._target_"]),
    st.sampled_from(["hydra.run.dir", "hydra/launcher", "method", "method.", ".method", "a.b.c", ""]),
    TEXTS,
)


@st.composite
def fitting(draw):
    """Draw a setting and a value of its type, often in range, to pass the first checks."""
    key, setting, _ = draw(st.sampled_from(documented()))
    kinds = {int: st.integers(1, 50), float: st.floats(1e-3, 1.0), bool: st.booleans()}
    values = [kinds[setting.kind]] if setting.kind in kinds else [TEXTS]
    values += [st.sampled_from(setting.words)] if setting.words else []
    return f"{key}={draw(st.one_of(*values))}"


GROUP = st.sampled_from(groups.GROUPS).flatmap(
    lambda group: st.sampled_from(groups.names(group)).map(lambda name: f"{group}={name}")
)
OTHER = st.builds(
    lambda sign, key, value: f"{sign}{key}={value}", st.sampled_from(["", "", "", "+", "++", "~"]), KEYS, VALUES
)
OVERRIDES = st.lists(st.one_of(GROUP, fitting(), OTHER), max_size=5)


@settings(max_examples=200, deadline=None)
@given(OVERRIDES)
def test_validate_accepts_any_text_or_gives_a_clean_error(overrides):
    _check(["validate", *overrides])


@settings(max_examples=60, deadline=None)
@given(GROUP, st.lists(fitting(), min_size=1, max_size=3))
def test_settings_of_the_right_kind_pass_or_give_a_clean_error(group, overrides):
    _check(["validate", group, *overrides])


@settings(max_examples=60, deadline=None)
@given(
    st.lists(TEXTS, max_size=3), st.sampled_from(["validate", "list", "show", "data", "plan", "table", "results", ""])
)
def test_a_light_command_never_ends_in_a_traceback(texts, command):
    """``show`` and ``plan`` read files with unchecked names."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as message:
        try:
            code = main([command, *(text for text in texts if not text.startswith("-"))])
        except SystemExit as stop:  # argparse's --help
            code = stop.code
    assert code in (0, 1, 2)
    if code == 2:
        one_sentence(message.getvalue())


def _check(arguments) -> None:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as message:
        code = main(arguments)
    assert code in (0, 2), (code, arguments)
    if code == 2:
        one_sentence(message.getvalue())


def test_validate_imports_no_tensorflow_and_runs_nothing(tmp_path):
    code = (
        "import sys; from dgpbench.cli import main\n"
        "assert main(['validate', 'method=star', 'training.learning_rate=0.1']) == 0\n"
        "assert main(['validate', 'method=star', 'training.learning_rate=nan']) == 2\n"
        "assert not {'tensorflow', 'gpflow'} & set(sys.modules)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert list(tmp_path.iterdir()) == []


NO_OVERRIDES = ("hydra/launcher=submitit_nothing", "++hydra.callbacks.x.${dataset.name}=os.getcwd")  # name nothing


@pytest.mark.parametrize(
    "override",
    [
        "method._target_=os.system",
        "+method._target_=os.system",
        "method._target_=dgpbench.cli.main",
        "dataset._target_=os.system",
        *NO_OVERRIDES,
        "hydra.callbacks.x._target_=os.system",
        "+hydra.callbacks.x._target_=os.getcwd",
        "+hydra.callbacks.x={_target_: os.mkdir, path: exploded}",
        "++hydra.callbacks.x=${dataset.drop}",
        "hydra.launcher=${dataset.drop}",
        "hydra.launcher.n_jobs=${dataset.drop}",
        "+hydra.launcher.x={y: 1}",
        "hydra/launcher=../../../../tmp/x",
        "hydra/callbacks@hydra.launcher=x",
        "hydra/launcher@hydra.callbacks=basic",
        "hydra/sweeper=x",
        "+hydra.sweeper.params.method=mf",
        "~hydra.callbacks",
        "hydra.job_logging.handlers.x.class=os.mkdir",
        "hydra.job.env_set.PYTHONSTARTUP=x.py",
    ],
)
def test_a_configuration_cannot_name_code_of_its_own(override, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["run", override, "budget=smoke"]) == 2
    message = one_sentence(capsys.readouterr().err)
    assert "may name code" in message or "hydra" not in override.split("=")[0] or override in NO_OVERRIDES
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("override", ["hydra.run.dir=x/y", "hydra.launcher.n_jobs=2", "hydra/launcher=joblib"])
def test_a_hydra_key_that_does_not_name_code_is_accepted(override):
    assert main(["validate", override, "method=gpr", "dataset=diabetes"]) == 0


@pytest.mark.parametrize(
    "words", [["validate"], ["run"], ["bench", "steps", "threads=1000000"]], ids=["validate", "run", "bench"]
)
def test_more_threads_than_the_machine_runs_are_refused(words, capsys):
    assert main([*words, *(["num_threads=1000000"] if words[0] != "bench" else [])]) == 2
    assert "num_threads=1000000 cannot be used" in one_sentence(capsys.readouterr().err)


@pytest.mark.parametrize(
    "override",
    [
        "+training.learning_rate=0.1",
        "++training.learning_rate=0.1",
        "~training.learning_rate",
        "+dataset.new=1",
        "++task.new=1",
        "+method=mf",
        "~method",
        "+new=1",
        "+training.new=1",
    ],
)
def test_a_key_that_is_added_or_removed_is_refused(override, capsys):
    assert main(["validate", override]) == 2
    assert ("adds or removes" in (text := one_sentence(capsys.readouterr().err))) or "unknown setting" in text


def test_a_configuration_cannot_name_a_folder_that_names_code(tmp_path, monkeypatch, capsys):
    (tmp_path / "others" / "hydra" / "callbacks").mkdir(parents=True)
    (tmp_path / "others" / "hydra" / "callbacks" / "x.yaml").write_text("x: {_target_: os.mkdir, path: exploded}")
    monkeypatch.chdir(tmp_path)
    place = f"hydra.searchpath=[file://{tmp_path / 'others'}]"
    assert main(["run", place, "hydra/callbacks=x", "budget=smoke", "method=gpr", "dataset=diabetes"]) == 2
    one_sentence(capsys.readouterr().err)
    assert [path.name for path in tmp_path.iterdir()] == ["others"]


@pytest.mark.parametrize("key", ["seed", "split", "training.max_iterations", "training.learning_rate"])
@pytest.mark.parametrize("digits", [19, 400, 5000])
def test_a_number_that_no_record_can_hold_is_refused_before_the_run(key, digits, capsys):
    accepted = key == "training.learning_rate" and digits < 300
    assert main(["validate", "method=star", f"{key}={'9' * digits}"]) == (0 if accepted else 2)
    assert accepted or f"{key}=999" in one_sentence(capsys.readouterr().err)


def test_thousands_of_brackets_are_refused(capsys):
    assert main(["validate", "method=custom", f"method.blocks={'[' * 2000}{']' * 2000}"]) == 2
    assert "is not an override of the form key=value" in one_sentence(capsys.readouterr().err)
