"""Raw columns as numbers: medians and categories of the training rows alone, worked out by hand."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dgpbench.config.settings import typed as checked
from dgpbench.data.cells import TableSettings
from dgpbench.data.datasets import load, specs
from dgpbench.data.encoding import ColumnEncoder, Schema, describe_columns, typed
from dgpbench.data.splits import InterpolationSettings, make_split
from dgpbench.data.table import Table
from dgpbench.errors import UserError

AUTO = {"missing": "impute", "categorical": "auto", "dates": "auto"}
HOUSES = (
    "colour,age,sold,new,y\n"
    "red,1,2024-01-01,True,1\n"
    "blue,,2024-01-02,False,2\n"
    ",3,2024-02-01,True,3\n"
    "red,10,2024-01-05T12:00,True,4\n"
)


def own(tmp_path: Path, text: str, **options: object) -> Table:
    file = tmp_path / "t.csv"
    file.write_text(text)
    return load({**specs()["csv"], "path": str(file), "target": "y", **options})


def encoder_of(frame: pd.DataFrame, **options: object) -> ColumnEncoder:
    settings = replace(TableSettings.DEFAULT, **options)
    schema = Schema.of(frame, settings)
    return ColumnEncoder.fit(typed(frame, schema, settings), schema)


def column(encoder: ColumnEncoder, X: np.ndarray, name: str) -> list[float]:
    return X[:, encoder.feature_names.index(name)].tolist()


def test_each_kind_of_column_is_encoded_as_by_hand(tmp_path: Path) -> None:
    X, encoder = own(tmp_path, HOUSES, **AUTO).encoded(np.arange(4))
    expected = {
        "colour=(missing)": [0, 0, 1, 0],
        "colour=blue": [0, 1, 0, 0],
        "colour=red": [1, 0, 0, 1],
        "age": [1, 3, 3, 10],  # the median of 1, 3 and 10
        "age=(missing)": [0, 1, 0, 0],
        "sold": [19723, 19724, 19754, 19727.5],  # 54 years of 365 days and 13 leap days to 2024-01-01
        "new": [1, 0, 1, 1],
    }
    assert encoder.feature_names == tuple(expected)
    assert {name: column(encoder, X, name) for name in expected} == expected


def test_medians_and_categories_are_those_of_the_training_rows(tmp_path: Path) -> None:
    X, encoder = own(tmp_path, HOUSES, **AUTO).encoded(np.array([0, 1, 2]))
    assert column(encoder, X, "age") == [1, 2, 3, 10]  # the median of 1 and 3
    X, encoder = own(tmp_path, HOUSES, **AUTO).encoded(np.array([0, 3]))
    assert encoder.feature_names == ("colour=red", "age", "sold", "new")
    assert column(encoder, X, "colour=red") == [1, 0, 0, 1]  # unknown to the training rows: 0 throughout
    assert column(encoder, X, "age") == [1, 5.5, 3, 10]


def test_altering_test_rows_changes_nothing_that_was_fitted(tmp_path: Path) -> None:
    before = own(tmp_path, HOUSES, **AUTO)
    altered = HOUSES.replace("red,10,2024-01-05T12:00,True,4", "green,,1999-01-01,False,400")
    after = own(tmp_path, altered, **AUTO)
    train = np.array([0, 1, 2])
    (X, one), (Z, other) = before.encoded(train), after.encoded(train)
    assert one == other
    np.testing.assert_array_equal(X[train], Z[train])
    assert before.digest_xy != after.digest_xy


def test_a_run_standardises_what_the_training_rows_alone_gave(tmp_path: Path) -> None:
    """The whole way to the standardised rows: the gap of the test row is filled with the training rows' median."""
    from dgpbench.runs.problem import prepare
    from dgpbench.runs.resolve import resolve_overrides

    values = np.random.default_rng(0).normal(size=(40, 2))
    text = "a,b,y\n" + "\n".join(f"{a},{b},{a + b}" for a, b in values)
    plain = [f"dataset.path={tmp_path / 't.csv'}", "dataset.target=y"]
    run = resolve_overrides(["dataset=csv", "method=gpr", "dataset.missing=impute", *plain])
    problem = prepare(run, own(tmp_path, text.replace(f"{values[7, 0]},", ",", 1), missing="impute"))
    train, test = problem.split.train, problem.split.test
    known = [values[row, 0] for row in train if row != 7]
    filled = np.where(np.arange(40) == 7, np.median(known), values[:, 0])
    np.testing.assert_allclose(problem.test.X[:, 0], (filled[test] - filled[train].mean()) / filled[train].std())
    assert problem.encoder.columns[0].fill == np.median(known)


def test_new_rows_are_treated_as_in_training(tmp_path: Path) -> None:
    _, encoder = own(tmp_path, HOUSES, **AUTO).encoded(np.arange(4))
    new = pd.DataFrame({"new": [True], "extra": ["x"], "age": [None], "colour": ["pink"], "sold": ["1970-01-11"]})
    assert encoder.transform(new).tolist() == [[0, 0, 0, 3, 1, 10, 1]]
    with pytest.raises(
        UserError, match=r"new.csv lacks 2 of the 4 columns: 'age', 'sold'; is 'ages' meant to be 'age'\?"
    ):
        encoder.transform(new.drop(columns="sold").rename(columns={"age": "ages"}), "new.csv")
    with pytest.raises(UserError, match="has 2 columns named 'age'"):
        encoder.transform(pd.concat([new, new[["age"]]], axis=1))
    with pytest.raises(UserError, match=r"holds text in 1 cell \(row 1 of 'age': 'old'\)"):
        encoder.transform(new.assign(age=["old"]))
    with pytest.raises(UserError, match=r"holds values other than true and false in 1 cell \(row 1 of 'new': 3\)"):
        encoder.transform(new.assign(new=[3]))


def test_gaps_in_new_rows_are_refused_if_training_had_none(tmp_path: Path) -> None:
    _, encoder = own(tmp_path, "a,b,y\n1,2,3\n4,5,7\n").encoded(np.arange(2))
    assert encoder.transform(pd.DataFrame({"b": [1], "a": [0]})).tolist() == [[0, 1]]
    with pytest.raises(UserError, match=r"no value \(NaN\) in 1 cell \(row 1 of 'b'\)"):
        encoder.transform(pd.DataFrame({"b": [None], "a": [0]}))


def test_imputing_fills_gaps_that_training_did_not_have(tmp_path: Path) -> None:
    table = own(tmp_path, "a,y\n1,2\n4,7\n5,1\n", missing="impute")
    X, encoder = table.encoded(np.arange(3))
    assert X.tolist() == [[1], [4], [5]]
    assert encoder.transform(pd.DataFrame({"a": [np.nan]})).tolist() == [[4]]


def test_an_encoder_comes_back_from_plain_data_with_the_same_bits(tmp_path: Path) -> None:
    table = own(tmp_path, HOUSES, **AUTO)
    X, encoder = table.encoded(np.array([0, 1, 2]))
    again = checked(ColumnEncoder, json.loads(json.dumps(asdict(encoder))), "columns")
    assert again == encoder
    assert table.raw is not None
    np.testing.assert_array_equal(again.encode(table.raw.rows), X)


def test_a_plain_table_is_unchanged_for_every_setting_of_gaps(tmp_path: Path) -> None:
    text = "a,b,y\n0.1,2,3\n0.30000000000000004,5,6\n"
    plain, ready = own(tmp_path, text), own(tmp_path, text, **AUTO)
    assert plain.X.tolist() == [[0.1, 2], [0.30000000000000004, 5]]
    assert (plain.name, plain.digest_xy, plain.digest_xy_ordered) == (
        ready.name,
        ready.digest_xy,
        ready.digest_xy_ordered,
    )
    # The bytes of the rows [X | y], as records before raw columns had it.
    import hashlib

    assert plain.digest_xy_ordered == hashlib.sha256(np.array([[0.1, 2, 3], [0.1 + 0.2, 5, 6]]).tobytes()).hexdigest()
    assert plain.encoded(np.array([0]))[0] is plain.X


def test_the_digest_moves_with_raw_cells_and_with_the_settings_that_matter(tmp_path: Path) -> None:
    text = "c,a,y\nred,1,1\nblue,,5\nred,3,4\n"
    variants = [
        own(tmp_path, text, **AUTO),
        own(tmp_path, text.replace("blue", "blau"), **AUTO),
        own(tmp_path, text.replace("blue,,", "blue,2,"), **AUTO),  # 2 is what the gap is filled with
        own(tmp_path, text, missing="drop", categorical="auto"),
        own(tmp_path, text, missing="impute", categorical=["c", "a"]),
    ]
    assert len({table.digest_xy for table in variants}) == len(variants)
    assert len({table.name for table in variants}) == len(variants)


def test_reordered_copies_have_one_digest_and_the_same_split(tmp_path: Path) -> None:
    lines = [f"{'red' if row % 3 else 'blue'},{row if row % 5 else ''},{row * row}" for row in range(30)]
    one = own(tmp_path, "\n".join(["c,a,y", *lines]), **AUTO)
    other = own(tmp_path, "\n".join(["c,a,y", *reversed(lines)]), **AUTO)
    assert one.digest_xy == other.digest_xy
    assert one.digest_xy_ordered != other.digest_xy_ordered
    task = InterpolationSettings("interpolation", train_fraction=0.7)
    rows, reversed_rows = (make_split(table, task, 0, specs()["csv"]).train for table in (one, other))
    assert sorted(one.y[rows]) == sorted(other.y[reversed_rows])


def test_rows_with_a_gap_are_dropped_and_counted(tmp_path: Path) -> None:
    table = own(tmp_path, "a,b,y\n1,2,3\n,5,6\n7,8,\n9,1,2\n", missing="drop")
    assert (table.X.tolist(), table.y.tolist(), table.num_left_out) == ([[1, 2], [9, 1]], [3, 2], 2)
    assert table.digest_xy == own(tmp_path, "a,b,y\n1,2,3\n9,1,2\n").digest_xy


def test_a_row_without_a_target_trains_nothing_and_is_counted(tmp_path: Path) -> None:
    table = own(tmp_path, "a,b,y\n1,2,3\n,5,6\n7,8,\n", missing="impute")
    assert (table.num_rows, table.num_left_out) == (2, 1)
    with pytest.raises(UserError, match="has 1 row below its header, and 2 left out because of missing values"):
        own(tmp_path, "a,b,y\n1,2,3\n,5,\n7,8,\n", missing="impute")


def test_numbers_can_be_categories_with_and_without_gaps(tmp_path: Path) -> None:
    _, encoder = own(tmp_path, "zip,y\n10115,1\n,2\n10117,3\n", missing="impute", categorical=["zip"]).encoded(
        np.arange(3)
    )
    assert encoder.feature_names == ("zip=(missing)", "zip=10115", "zip=10117")
    assert encoder.transform(pd.DataFrame({"zip": [10117]})).tolist() == [[0, 0, 1]]


def test_other_ways_of_writing_dates(tmp_path: Path) -> None:
    text = "d,y\n31.12.1970,1\n01.02.1970,2\n"
    table = own(tmp_path, text, dates=["d"], date_format="%d.%m.%Y")
    assert table.encoded(np.arange(2))[0].tolist() == [[364], [31]]
    with pytest.raises(UserError, match=r"no date in 2 cells .*31.12.1970.*dataset.date_format"):
        own(tmp_path, text, dates=["d"])


def test_a_column_with_too_many_texts_is_refused_unless_it_is_named(tmp_path: Path) -> None:
    text = "n,y\n" + "\n".join(f"name {row},{row % 7}" for row in range(51))
    with pytest.raises(UserError, match=r"has 51 different texts in 51 rows of 'n'.*'dataset.drop=\[n\]'"):
        own(tmp_path, text, categorical="auto")
    assert len(own(tmp_path, text, categorical=["n"]).encoded(np.arange(51))[1].feature_names) == 51


def test_the_summary_describes_the_encoding_of_each_column(tmp_path: Path) -> None:
    _, encoder = own(tmp_path, HOUSES, **AUTO).encoded(np.arange(4))
    assert describe_columns(json.loads(json.dumps(encoder.describe()))) == [
        "  colour: 3 columns of 0 and 1, one for each category ((missing), blue, red); all 0 for an unknown one",
        "  age: numbers, 1 gap filled with the training rows' median, 3, and marked in a column",
        "  sold: days since 1970-01-01",
        "  new: 1 for true, 0 for false",
    ]
    assert describe_columns(ColumnEncoder.of_numbers(["a", "b"]).describe()) == ["  a, b: numbers"]


def test_a_file_read_in_parts_gives_equal_cells_and_row_numbers(tmp_path: Path) -> None:
    from dgpbench.data.table_files import parts
    from dgpbench.data.user_table import settings_of

    settings = settings_of(specs()["csv"])
    frame = pd.DataFrame({"a": np.arange(7) / 3, "b": list("uvwuvwx")})
    encoder = encoder_of(frame, categorical="auto")
    for name, write in (("t.csv.gz", frame.to_csv), ("t.parquet", frame.to_parquet)):
        write(tmp_path / name, index=False)
        read = list(parts(tmp_path / name, settings, ["a", "b"], 3))
        assert [len(part) for part in read] == [3, 3, 1]
        X = np.concatenate([encoder.transform(part) for part in read])
        np.testing.assert_array_equal(X, encoder.transform(frame))
    frame.astype({"a": object}).replace({"a": {4 / 3: "old"}}).to_csv(tmp_path / "bad.csv", index=False)
    with pytest.raises(UserError, match=r"row 5 of 'a': 'old'"):
        [encoder.transform(part) for part in parts(tmp_path / "bad.csv", settings, ["a", "b"], 3)]


def test_a_schema_can_be_made_from_a_frame() -> None:
    frame = pd.DataFrame({"a": [1.0, None, 3.0], "c": ["x", "y", "x"]})
    encoder = encoder_of(frame, missing="impute", categorical="auto")
    assert encoder.transform(frame).tolist() == [[1, 0, 1, 0], [2, 1, 0, 1], [3, 0, 1, 0]]


@pytest.mark.parametrize(
    ("form", "advice"),
    [
        ("{}.01.2020", "dataset.dates=auto dataset.date_format=%d.%m.%Y"),
        ('"{},5"', "dataset.decimal=comma"),
        ('"{},000"', "dataset.decimal=comma .*, dataset.thousands=comma"),
        ("{} 000", "dataset.thousands=blank"),
        ("{}%", "no setting reads percent signs"),
    ],
)
def test_dates_and_numbers_do_not_become_categories_by_default(tmp_path: Path, form: str, advice: str) -> None:
    text = "d,x,y\n" + "".join(f"{form.format(day)},{day % 3},{day}\n" for day in range(1, 11))
    with pytest.raises(UserError, match=rf"row 1 of 'd'.*: {advice}.*'dataset.categorical=\[d\]' makes categories"):
        own(tmp_path, text, **AUTO)
    assert own(tmp_path, text, categorical=["d"]).encoded(np.arange(10))[0].shape == (10, 11)
