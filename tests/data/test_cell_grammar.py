"""A user's table is read as intended or refused: numbers, gaps, categories, dates and headers of every format."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dgpbench.data.cells import TableSettings, frame_of
from dgpbench.data.datasets import load, specs
from dgpbench.data.table import Table
from dgpbench.data.user_table import of_frame
from dgpbench.errors import UserError


def own(folder: Path, content: object, name: str = "t.csv", **options: object) -> Table:
    file = folder / name
    if isinstance(content, pd.DataFrame):
        write = {".parquet": content.to_parquet, ".xlsx": content.to_excel}.get(file.suffix, content.to_csv)
        write(file, **({} if file.suffix == ".parquet" else {"index": False}))
    else:
        file.write_bytes(content if isinstance(content, bytes) else str(content).encode())
    return load({**specs()["csv"], "path": str(file), "target": "y", **options})


def features(table: Table) -> list[list[float]]:
    return table.encoded(np.arange(table.num_rows))[0].tolist()


def names(table: Table) -> tuple[str, ...]:
    return table.encoded(np.arange(table.num_rows))[1].feature_names


# Decimal and thousands marks, then cells with their numbers, or None where they are refused.
LOCALES = {
    ("point", None): {
        "1": 1, "-2.5": -2.5, "+3.": 3, "  4 ": 4, ".5": 0.5, "1e5": 1e5, "1E-05": 1e-5, "\u22126": -6, "1.234": 1.234,
        "1,5": None, "1,234": None, "1_000": None, "0x1F": None, "1 234": None, "--1": None, "5%": None, "(5)": None,
    },
    ("point", "comma"): {
        "1,234": 1234, "1,234,567.5": 1234567.5, "12,345": 12345, "1234.5": 1234.5, "1,5": None, "12,34": None,
        "0,123": None, "1,2345": None, "1.234,5": None, "1'234": None, ",123": None, "1,,234": None,
    },
    ("comma", "point"): {
        "1.234": 1234, "1.234,5": 1234.5, "1234,5": 1234.5, "-12.345.678,25": -12345678.25, "3,274": 3.274,
        "3.27": None, "1.5": None, "1,234.5": None, "12.34.5": None, "01.234": None, "1.234.56": None,
    },
    ("comma", "blank"): {
        "1 234": 1234, "1\u00a0234,5": 1234.5, "12\u202f345": 12345, "3,5": 3.5, "1  234": None, "12 34": None,
        "3.5": None, "1 234.5": None, "1.234,5": None,
    },
    ("point", "apostrophe"): {
        "1'234": 1234, "1\u2019234.5": 1234.5, "12'345'678": 12345678, "0.5": 0.5, "1'23": None, "1'234,5": None,
        "'123": None, "1,234": None,
    },
    ("comma", None): {
        "1,5": 1.5, "-0,25": -0.25, ",5": 0.5, "2,": 2, "1,5e-3": 0.0015, "7": 7, "3.274": None, "1.5": None,
        "1,2,3": None,
    },
}  # fmt: skip
CELLS = [(*marks, cell, number) for marks, cells in LOCALES.items() for cell, number in cells.items()]


def test_the_grammar_of_numbers_has_sixty_cells() -> None:
    assert len(CELLS) >= 60


@pytest.mark.parametrize(("decimal", "thousands", "cell", "number"), CELLS)
def test_a_number_is_read_by_its_separators_or_refused(
    decimal: str, thousands: str | None, cell: str, number: float | None, tmp_path: Path
) -> None:
    text = f"a\ty\n{cell}\t5\n2\t6\n"
    if number is None:
        with pytest.raises(UserError, match=r"holds (text|dates) in 1 cell"):
            own(tmp_path, text, decimal=decimal, thousands=thousands)
    else:
        assert own(tmp_path, text, decimal=decimal, thousands=thousands).X.tolist() == [[number], [2]]


CENTS = st.lists(st.integers(-(10**8), 10**8), min_size=2, max_size=8, unique=True)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cents=CENTS, marks=st.sampled_from([",.", ".,", " ,", "',", "'."]))
def test_following_the_advice_of_a_message_reads_the_numbers(cents: list[int], marks: str, tmp_path: Path) -> None:
    cells = [f"{value / 100:,.2f}".translate(str.maketrans(",.", marks)) for value in cents]
    text = "a\ty\n" + "".join(f"{cell}\t{row}\n" for row, cell in enumerate(cells))
    chosen: dict[str, str | None] = {}
    for _ in range(3):
        try:
            assert own(tmp_path, text, **chosen).X[:, 0].tolist() == [value / 100 for value in cents]
            return
        except UserError as refusal:
            advice = re.findall(r"dataset\.(decimal|thousands)=(\w+)", str(refusal))
            chosen |= {key: None if value == "null" else value for key, value in advice}
    raise AssertionError(f"the advice loops: {chosen}")


@pytest.mark.parametrize(
    ("content", "options", "sentence"),
    [
        ("a;y\n3.274;1\n1,5;2\n", {"decimal": "comma"}, "dataset.thousands=point reads '3.274' as 3274"),
        ("a;y\n1,234;1\n2;2\n", {}, "decimal=comma reads '1,234' as 1.234, dataset.thousands=comma .* as 1234"),
        ("a;y\n1,5;1\n2;2\n", {"thousands": "point"}, "are the same mark: set dataset.decimal=comma"),
        ("a;b;y\n1,5;2.5;1\n2,5;3.5;2\n", {"decimal": "comma"}, "no setting reads these beside the other numbers"),
        ("d;y\n01012020;1\n02012020;2\n", {"dates": "auto", "date_format": "%d%m%Y"}, r"'dataset.dates=\[d\]' makes dates"),  # noqa: E501
        ("d;y\n1012020;1\n02012020;2\n", {"dates": ["d"], "date_format": "%d%m%Y"}, "no date in 1 cell .row 1"),
        ("d;y\n2020-01-01;1\nnow;2\n", {"dates": ["d"]}, "no date in 1 cell .row 2"),
        ("d;y\n01.01.2020;1\ntoday;2\n", {"dates": ["d"], "date_format": "%d.%m.%Y"}, "no date in 1 cell .row 2"),
        ("d;y\n5;1\n--5;2\n", {}, "text in 1 cell"),
        ("# made by R\na,y\n1,2\n3,4\n", {}, "line 2 has 1 cell .*: delete titles and comments"),
        ('"a" "y"\n"1" 2 3\n"2" 4 5\n', {}, "line 2 has 3 cells .*, its header 2: .*R's write.table"),
        ("Prices,,\na,b,y\n1,2,3\n3,4,5\n", {}, "names one column of 3, 'Prices': delete titles"),
        ("a,b,y\n1,2,3\n4,5\n", {"missing": "impute"}, "line 3 has 2 cells"),
        ('a,b,y\n1,x,2\n2,"y,3\n3,z,4\n4,w",5\n', {"drop": ["b"]}, "quotation mark in line 3 makes one cell of several"),  # noqa: E501
        ('a,b,y\n1,x,2\n2,"y,3\n4,"w,5\n', {"drop": ["b"]}, "line 4 has a quotation mark that does not enclose"),
        (b"PK\x03\x04\x00\x00", {}, "is a zip archive or workbook: unpack it"),
        (b"\x1f\x8b\x08\x00", {}, "is packed by gzip: name it .csv.gz"),
        (b"ARROW1\x00\x00", {}, "is a feather or arrow file: write it as parquet or csv"),
        (b"a,y\n" + b"x" * 2**24 + b"\n", {}, "a line of more than 16,777,216 characters"),
        (",a,c,y\n" + "".join(f"{i},2,red,{i}\n" for i in range(9)), {}, "without a name.*; it also holds text in 9"),
    ],
)  # fmt: skip
def test_ambiguous_numbers_are_refused_with_the_setting_that_decides(
    content: object, options: dict[str, object], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=sentence) as refusal:
        own(tmp_path, content, **options)
    assert len(str(refusal.value).replace(str(tmp_path), "")) < 600


CODES = ["1E2", "100", "3.1", "3.10", "1e999", "2e999", "12.34.5", "1.23.45"]
IDS = ["1234567890123456789", "1234567890123456788", None]


def test_categories_are_distinguished_by_their_text(tmp_path: Path) -> None:
    text = "a;y\n" + "".join(f"{code};{row}\n" for row, code in enumerate(CODES))
    table = own(tmp_path, text, categorical=["a"], decimal="comma", thousands="point")
    assert sorted(names(table)) == sorted(f"a={code}" for code in CODES)


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_ids_of_nineteen_digits_stay_apart_beside_a_gap(name: str, tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": pd.array([int(each) if each else None for each in IDS], "Int64"), "y": [1, 2, 3]})
    table = own(tmp_path, frame, name, categorical=["a"], missing="impute")
    assert set(names(table)) == {"a=(missing)", *(f"a={each}" for each in IDS if each)}


def test_ids_that_floats_have_merged_are_refused() -> None:
    frame = pd.DataFrame({"a": [1234567890123456789, 1234567890123456788, None]})
    with pytest.raises(UserError, match="floats merge such categories: convert the column to text"):
        of_frame(frame, np.arange(3.0), "y", replace(TableSettings.DEFAULT, categorical=["a"], missing="impute"))


@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.xlsx"])
def test_marks_of_gaps_are_the_same_in_every_format(name: str, tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [1, -999, 3], "b": [0.5, -999.0, 2], "c": ["u", "NA ", "?"], "y": [1, 2, 4]})
    options = {"na_values": [-999, "?"], "missing": "impute", "categorical": "auto"}
    table = own(tmp_path, frame, name, **options)
    expected = [[1, 0, 0.5, 0, 0, 1], [2, 1, 1.25, 1, 1, 0], [3, 0, 2, 0, 1, 0]]
    assert features(table) == expected
    reading = replace(TableSettings.DEFAULT, **options)
    assert features(of_frame(frame.drop(columns="y"), frame["y"].to_numpy(), "y", reading)) == expected


@pytest.mark.parametrize("mark", ["-999", "-999.00", "-9.99e2", " -999"])
def test_a_number_that_marks_a_gap_does_so_however_it_is_written(mark: str, tmp_path: Path) -> None:
    table = own(tmp_path, f"a,y\n1,1\n{mark},2\n3,4\n", na_values=[-999], missing="impute")
    assert features(table) == [[1, 0], [2, 1], [3, 0]]


@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.xlsx"])
def test_a_number_marks_a_gap_among_numbers_that_are_categories(name: str, tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [1, -999, 3, 1], "y": [1, 2, 4, 5]})
    table = own(tmp_path, frame, name, na_values=[-999], missing="impute", categorical=["a"])
    assert table.encoded(np.arange(4))[1].describe()[0]["categories"] == ["(missing)", "1", "3"]


def test_all_formats_give_one_table(tmp_path: Path) -> None:
    frame = pd.DataFrame({
        "n": [1, 2, 3], "x": [0.1, 2.5, np.nan], "c": ["01", "x", "5.0"], "zip": [10115, 10117, 10115],
        "d": pd.to_datetime(["2024-01-31", "2024-02-01", "1969-12-31"]), "f": [True, False, True], "y": [1.0, 2.0, 4.0],
    })  # fmt: skip
    options = {"missing": "impute", "categorical": ["c", "zip"], "dates": ["d"]}
    tables = [own(tmp_path, frame, name, **options) for name in ("t.csv", "t.csv.gz", "t.parquet", "t.xlsx")]
    reading, y = replace(TableSettings.DEFAULT, **options), frame["y"].to_numpy()
    for given_frame in (frame, frame_of(pa.table(frame)), frame.convert_dtypes(dtype_backend="pyarrow")):
        tables.append(of_frame(given_frame.drop(columns="y"), y, "y", reading))
    assert len({table.digest_xy for table in tables}) == 1
    assert len({str((names(table), features(table))) for table in tables}) == 1


def test_text_with_a_decimal_comma_is_read_in_parquet(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": ["1,5", "2,5", "3"], "y": [1, 2, 4]})
    assert own(tmp_path, frame, "t.parquet", decimal="comma").X.tolist() == [[1.5], [2.5], [3]]


def test_a_stored_index_is_refused_unless_it_is_a_plain_range(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [1.0, 2, 5], "y": [1, 2, 4]}, index=[5, 9, 2])
    with pytest.raises(UserError, match=r"has an index .*'dataset.drop=\[index\]' leaves it out, 'dataset.keep="):
        own(tmp_path, frame, "t.parquet")
    assert own(tmp_path, frame, "t.parquet", keep=["index"]).feature_names == ("index", "a")
    assert own(tmp_path, frame.reset_index(drop=True), "t.parquet").feature_names == ("a",)


def test_a_parquet_file_with_a_name_twice_is_refused_by_that_name(tmp_path: Path) -> None:
    columns = [pa.array([1.0, 2]), pa.array([2.0, 5]), pa.array([1.0, 3])]
    pq.write_table(pa.table(columns, names=["a", "a", "y"]), tmp_path / "t.parquet")
    with pytest.raises(UserError, match="has 2 columns named 'a': give each its own name"):
        own(tmp_path, (tmp_path / "t.parquet").read_bytes(), "t.parquet")


def test_dates_beyond_the_years_of_microseconds_are_read(tmp_path: Path) -> None:
    days = 2**55 // 86_400_000
    dates = pa.array([0, 86_400_000 * days], pa.timestamp("ms"))
    pq.write_table(pa.table({"a": dates, "y": [1.0, 3]}), tmp_path / "t.parquet")
    assert features(own(tmp_path, (tmp_path / "t.parquet").read_bytes(), "t.parquet", dates="auto")) == [[0], [days]]


def test_blank_lines_are_rows_but_for_those_around_the_table(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no value .* in 2 cells .row 2 of 'a', row 2 of 'y'"):
        own(tmp_path, "\n\na;y\n1;2\n\n3;4\n\n\n")
    assert own(tmp_path, "\n\na;y\n1;2\n3;4\n\n\n").num_rows == 2


def test_the_separator_that_excel_writes_is_taken(tmp_path: Path) -> None:
    assert own(tmp_path, "sep=;\na;y\n1,5;2\n3;4\n", decimal="comma").X.tolist() == [[1.5], [3]]


def test_columns_of_type_category_are_categories(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": pd.Categorical([3, 1, 3]), "y": [1, 2, 4]})
    assert names(own(tmp_path, frame, "t.parquet", categorical="auto")) == ("a=1", "a=3")
    with pytest.raises(UserError, match=r"holds categories in 3 cells .*dataset.categorical=auto"):
        own(tmp_path, frame, "t.parquet")


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ([[1], [2], [3, 4]], "lists or structs"),
        ([{"k": 1}] * 3, "lists or structs"),
        (pd.to_timedelta([1, 2, 3], unit="h"), "durations"),
        (pd.period_range("2020", periods=3, freq="D"), "periods"),
        (pd.interval_range(0, 3), "intervals"),
        ([1j, 2j, 3j], "complex numbers"),
    ],
)
def test_unreadable_cells_are_a_clean_error(cells: object, words: str) -> None:
    reading = replace(TableSettings.DEFAULT, categorical="auto", dates="auto")
    with pytest.raises(UserError, match=rf"holds {words} in 3 cells .*'dataset.drop=\[a\]' leaves it out"):
        of_frame(pd.DataFrame({"a": cells}), np.arange(3.0), "y", reading)


def test_sparse_columns_are_read() -> None:
    frame = pd.DataFrame({"a": pd.arrays.SparseArray([0, 0, 1.0])})
    assert of_frame(frame, np.arange(3.0), "y", TableSettings.DEFAULT).X.tolist() == [[0], [0], [1]]


@pytest.mark.full
def test_a_sheet_with_a_far_cell_is_refused_before_memory_is_taken(tmp_path: Path) -> None:
    import openpyxl

    book = openpyxl.Workbook()
    book.active.append(["a", "y"])
    book.active["XFD1048576"] = 1
    book.save(tmp_path / "t.xlsx")
    with pytest.raises(UserError, match="reaches to row 1,048,576 and column 16,384"):
        load({**specs()["csv"], "path": str(tmp_path / "t.xlsx"), "target": "y"})


def test_a_folder_is_not_a_table(tmp_path: Path) -> None:
    (tmp_path / "t.parquet").mkdir()
    with pytest.raises(UserError, match="is a folder: name one file"):
        load({**specs()["csv"], "path": str(tmp_path / "t.parquet"), "target": "y"})
