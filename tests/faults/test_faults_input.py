"""Bad tables and bad settings: refused in one sentence before anything runs, or run to finite numbers."""

import math

import numpy as np
import pytest
from fault_tools import TINY, one_sentence, the_record

from dgpbench.cli import main
from dgpbench.runs import store

ROWS = np.random.default_rng(0).normal(size=(40, 3))


def table(folder, *, header="a,b,y", rows=ROWS, replace=None):
    """A CSV file; ``replace`` is (row, column, text)."""
    cells = [[repr(float(value)) for value in row] for row in rows]
    if replace is not None:
        cells[replace[0]][replace[1]] = replace[2]
    path = folder / "table.csv"
    path.write_text("\n".join([header, *map(",".join, cells)]) + "\n")
    return path


def run(path, *overrides, target="y"):
    """The exit code of a tiny run on a table."""
    settings = [text for text in TINY if not text.startswith("dataset=")]
    own = [
        "dataset=csv",
        f'dataset.path="{path}"',
        f"dataset.target={target}",
        f"results_dir={path.parent / 'results'}",
    ]
    return main(["run", *settings, *own, *overrides])


def with_column(column, values):
    rows = ROWS.copy()
    rows[:, column] = values
    return rows


REFUSED = {
    "NaN": ({"replace": (3, 0, "nan")}, "no value (NaN) in 1 cell"),
    "empty": ({"replace": (3, 0, "")}, "no value (NaN) in 1 cell"),
    "infinity": ({"replace": (3, 1, "inf")}, "infinite"),
    "beyond float64": ({"replace": (3, 1, "1e999")}, "infinite"),
    "text": ({"replace": (3, 1, "red")}, "'red'"),
    "duplicate names": ({"header": "a,a,y"}, "more than one column 'a'"),
    "no rows": ({"rows": ROWS[:0]}, "0 rows"),
    "1 row": ({"rows": ROWS[:1]}, "1 row"),
    "2 rows": ({"rows": ROWS[:2]}, "training rows"),
    "3 rows": ({"rows": ROWS[:3]}, "training rows"),
    "0 features": ({"header": "y", "rows": ROWS[:, 2:]}, "no column beside the target"),
    "constant y": ({"rows": with_column(2, 5.0)}, "in every row"),
    "constant features": ({"rows": np.column_stack([np.ones((40, 2)), ROWS[:, 2]])}, "no feature varies"),
    "huge y": ({"rows": with_column(2, 1e300 * ROWS[:, 2])}, "too large"),
    "huge feature": ({"rows": with_column(0, 1e300 * ROWS[:, 0])}, "too large"),
    "tiny spread": ({"rows": with_column(2, 1e-300 * ROWS[:, 2])}, "too close"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_unusable_table_is_a_clean_error_without_a_record(name, tmp_path, capsys):
    changes, expected = REFUSED[name]
    assert run(table(tmp_path, **changes)) == 2
    assert expected in one_sentence(capsys.readouterr().err)
    assert not list(tmp_path.rglob(store.RECORD))


USABLE = {
    "a constant column is dropped": {"rows": with_column(0, 3.0)},
    "duplicate columns": {"rows": with_column(0, ROWS[:, 1])},
    "duplicate rows": {"rows": np.repeat(ROWS[:20], 2, axis=0)},
    "fewer distinct rows than inducing points": {"rows": np.column_stack([np.round(ROWS[:, :2] / 3), ROWS[:, 2]])},
    "an outlier of 1e9": {"replace": (3, 0, "1e9")},
    "an outlier of 1e100": {"replace": (3, 0, "1e100")},
}


@pytest.mark.parametrize("name", USABLE)
def test_a_strange_table_is_run_with_finite_scores(name, tmp_path):
    code = run(table(tmp_path, **USABLE[name]))
    record = the_record(tmp_path)
    assert (code, record["status"]) == (0, "done"), record["reason"]
    assert all(math.isfinite(score) for score in record["scores"].values())


def test_scores_are_in_the_units_of_the_table_however_far_from_standard(tmp_path):
    """Deviations of 1000 about a million: in standard units the error would be near 1, or near a million."""
    assert run(table(tmp_path, rows=with_column(2, 1e6 + 1e3 * ROWS[:, 2]))) == 0
    scores = the_record(tmp_path)["scores"]
    assert 100 < scores["rmse"] < 10_000
    assert -20 < scores["tll"] < -5  # about -log(1000) - 1.4


def test_a_column_constant_in_training_is_named_in_the_record(tmp_path):
    assert run(table(tmp_path, rows=with_column(0, 3.0))) == 0
    assert the_record(tmp_path)["data"]["dropped"] == ["a"]


def test_a_table_larger_than_memory_is_refused_before_it_is_read(tmp_path, monkeypatch, capsys):
    from dgpbench.data import table_files

    monkeypatch.setattr(table_files, "available", lambda: 100)
    assert run(table(tmp_path)) == 2
    assert "memory" in one_sentence(capsys.readouterr().err)


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["method=fc", "method.width=100000"], "method.width"),
        (["training.batch_size=100000000", "training.num_samples=1000000000"], "training.num_samples"),
    ],
)
def test_a_run_that_cannot_fit_in_memory_is_refused_at_the_start(overrides, expected, tiny, tmp_path, capsys):
    assert tiny(*overrides) == 2
    text = one_sentence(capsys.readouterr().err)
    assert "GiB" in text
    assert expected in text
    assert not list(tmp_path.rglob(store.RECORD))


@pytest.mark.parametrize("method", ["mf", "sghmc"])
def test_more_samples_than_any_use_has_are_refused(method, tiny, tmp_path, capsys):
    assert tiny(f"method={method}", "prediction.num_samples=100000000000") == 2
    assert "takes a whole number of at least 1 and at most 100000" in one_sentence(capsys.readouterr().err)
    assert not list(tmp_path.rglob(store.RECORD))


def test_what_fits_is_not_refused(tiny, monkeypatch):
    """The bound is a lower one: a run that passes with little memory free is let through."""
    from dgpbench.runs import problem

    monkeypatch.setattr(problem, "available", lambda: 2**20)
    assert tiny() == 0


def test_sixty_overrides_run_in_a_path_that_file_systems_accept(tmp_path):
    from dgpbench.config.settings import declared
    from dgpbench.runs.resolve import resolve_overrides

    which = ["method=star", "dataset=diabetes", "budget=smoke", "method.bound=predictive"]  # it has every setting
    run = resolve_overrides(which)
    changed = ["method.num_inducing=8", "training.max_iterations=60", "progress=false", "plot=false"]
    for section, settings in (("method", run.method), ("training", run.training)):
        for name, setting in declared(type(settings)).items():
            value = getattr(settings, name)
            if setting.kind is float and isinstance(value, float) and setting.high is None:
                changed.append(f"{section}.{name}={0.99 * value!r}")
    changed += [f"seed={seed}" for seed in range(56 - len(changed))] + ["seed=7"]
    arguments = [*which, *changed, f"results_dir={tmp_path}"]
    assert len(arguments) >= 60
    assert main(["run", *arguments]) == 0
    assert the_record(tmp_path)["identity"]["seed"] == 7
    assert all(len(part.encode()) <= 255 for path in tmp_path.rglob("*") for part in path.parts)


ODD = [
    "../../x",
    "a b",
    "é",
    "<script>",
    "star\n",
    "star;ls",
    "$(ls)",
    "%s",
    "x" * 300,
    "'",
    '"',
    "a=b",
    "{}",
    "star,",
    "-m",
]


@pytest.mark.parametrize("name", ODD, ids=range(len(ODD)))
def test_a_method_with_odd_characters_is_a_clean_error(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["run", f"method={name}"]) == 2
    one_sentence(capsys.readouterr().err)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a b", "é" * 100, "<script>", "%2F", "x" * 300, "$(ls)"])
def test_a_record_of_a_method_with_odd_characters_is_found_whole(name, tmp_path):
    from one_record import directory_of, record_of

    changed = {"method": name}
    directory = directory_of(tmp_path, **changed)
    record = record_of()
    store.write_run(directory, record | {"identity": record["identity"] | changed})
    ((path, found),) = store.find_records(tmp_path)
    assert found["identity"]["method"] == name
    assert tmp_path in path.resolve().parents
    assert store.verify_run(path.parent) == []


@pytest.mark.parametrize("name", ["a/b", "..", "a\nb"])
def test_a_method_name_that_is_a_path_leaves_no_record(name, tmp_path):
    from one_record import directory_of, record_of

    record = record_of()
    with pytest.raises(ValueError, match="not a name without a slash"):
        store.write_run(directory_of(tmp_path), record | {"identity": record["identity"] | {"method": name}})
    assert not list(tmp_path.rglob(store.RECORD))
