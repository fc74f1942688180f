"""The user's own table, and one sentence for each thing that can be wrong with it."""

from functools import partial
from pathlib import Path

import fit_once
import numpy as np
import pandas as pd
import pytest

from dgpbench.data.datasets import load, specs
from dgpbench.data.table import Table
from dgpbench.data.table_files import stem
from dgpbench.data.text_files import separator_of
from dgpbench.errors import UserError


def own(tmp_path: Path, text: str | bytes, name: str = "t.csv", **options: object) -> Table:
    file = tmp_path / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load({**specs()["csv"], "path": str(file), "target": "y", **options})


def test_a_table_is_read_with_its_names_and_digest(tmp_path: Path) -> None:
    table = own(tmp_path, "a,y,b\n1,2,3\n4,5,6\n", "my table (1).csv")
    assert table.X.tolist() == [[1, 3], [4, 6]]
    assert table.y.tolist() == [2, 5]
    assert (table.feature_names, table.target_name, table.verified) == (("a", "b"), "y", "own")
    assert table.name == f"my_table_1-{table.digest_xy[:8]}"


def test_two_tables_of_one_name_have_two_identities(tmp_path: Path) -> None:
    assert own(tmp_path, "a,y\n1,2\n3,4\n").name != own(tmp_path, "a,y\n1,2\n3,5\n").name


@pytest.mark.full
def test_a_transform_of_the_target_is_another_run(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,y\n" + "".join(f"{a},{1 + a * a}\n" for a in range(30)))
    words = ("method=bayesian_ridge", "dataset=csv", f"dataset.path={tmp_path}/t.csv", "dataset.target=y")
    plain = fit_once.run(tmp_path / "plain", *words).record
    log = fit_once.run(tmp_path / "log", *words, "dataset.target_transform=log").record
    assert plain["identity"]["overrides"] == {}
    assert log["identity"]["overrides"] == {"dataset.target_transform": "log"}
    assert plain["config_hash"] != log["config_hash"]
    assert plain["scores"] != log["scores"]


@pytest.mark.parametrize("separator", [",", ";", "\t", "|", "  "])
def test_the_separator_is_found(separator: str, tmp_path: Path) -> None:
    text = f"a{separator}b{separator}y\n1.5{separator}2{separator}3\n4{separator}5{separator}6\n"
    assert own(tmp_path, text).X.tolist() == [[1.5, 2], [4, 5]]


def test_a_separator_within_quotes_does_not_count() -> None:
    assert separator_of('"a, the first";"b, c, d";y') == ";"


def test_a_separator_can_be_given(tmp_path: Path) -> None:
    assert own(tmp_path, "a:y\n1:2\n3:4\n", separator=":").X.tolist() == [[1], [3]]
    assert own(tmp_path, "a§y\n1§2\n3§4\n", separator="§").X.tolist() == [[1], [3]]


@pytest.mark.parametrize("separator", ['"', "\n"])
def test_a_separator_that_cannot_stand_between_cells_is_refused(separator: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"dataset.separator=.* cannot be used; it takes a character, or comma"):
        own(tmp_path, "a,y\n1,2\n3,4\n", separator=separator)


def test_a_byte_order_mark_blanks_and_empty_last_lines_do_no_harm(tmp_path: Path) -> None:
    assert own(tmp_path, "\ufeffa, y\r\n1, 2\r\n3, 4\r\n\r\n\r\n").feature_names == ("a",)


def test_columns_can_be_left_out(tmp_path: Path) -> None:
    assert own(tmp_path, "id,a,y\nx,1,2\nz,3,4\n", drop=["id"]).feature_names == ("a",)


def test_a_constant_feature_is_allowed(tmp_path: Path) -> None:
    assert own(tmp_path, "a,b,y\n1,1,2\n1,3,4\n").X.shape == (2, 2)


def test_the_nearest_float_is_taken(tmp_path: Path) -> None:
    assert own(tmp_path, "a,y\n0.1000000000000000055,2\n3,4\n").X[0, 0] == 0.1


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a,Y\n1,2\n3,4\n", r"dataset.target=y is not a column; available: a, Y"),
        ("a,b,y\n1,2,3\n4,red,6\n", r"t.csv holds text in 1 cell \(row 2 of 'b': 'red'\)"),
        ("a,b,y\n1,2,3\n4,True,6\n", r"t.csv holds text in 1 cell \(row 2 of 'b': 'True'\)"),
        ("a,b,c,y\n1;2,x,3\n4;5,z,6\n".replace(";", ","), r"t.csv holds text in 2 cells .*dataset.categorical=auto"),
        (
            'a,b,y\n"1,5",x,3\n"2,5",z,6\n',
            r"2 cells .*: dataset.decimal=comma reads '1,5' as 1.5; it also holds text in 2 .*categorical=auto",
        ),
        ("a,y\n10 %,3\n20%,6\n", r"t.csv holds text in 2 cells .*: no setting reads percent signs: remove them"),
        ("a,y\n1,2\n3,\n5,6\n", r"t.csv has no value \(NaN\) in 1 cell \(row 2 of 'y'\): dataset.missing=impute"),
        ("a,y\n1,2\nnan,3\n5,6\n", r"t.csv has no value \(NaN\) in 1 cell \(row 2 of 'a'\): dataset.missing=impute"),
        ("a,y\n1,2\n3,4\ninf,6\n", r"t.csv holds an infinite number in 1 cell \(row 3 of 'a': 'inf'\)"),
        ("a,y\n1,2\n3,2\n", r"the target 'y' of .*t.csv is 2 in every row"),
        ("a,y\n1,2\n", r"t.csv has 1 row below its header: a regression needs at least 2"),
        ("a,y\n", r"t.csv has 0 rows below its header"),
        ("y\n1\n2\n", r"t.csv has no column beside the target 'y'"),
        ("", r"t.csv is not a table with a header row"),
        ("a,y\n1,2,3\n4,5,6\n", r"t.csv is not a table with a header row"),
        ("a,y\n1,2\n4,5,6\n", r"t.csv is not a table with a header row"),
        (b"\xff\xfe\x00a", r"t.csv is not a text in UTF-8 .*: dataset.encoding=utf-16 may read it"),
        (b"\xe9,y\n1,2\n3,4\n", r"t.csv is not a text in UTF-8 .*: dataset.encoding=latin-1"),
        ("a,y\n1,2\nred,3\n4,red\nblue,5\nx,1\n", r"in 3 cells \(row 2 of 'a': 'red', row 4 of 'a': 'blue', row 5"),
        (
            "a,b,y\n,,3\n,2,4\n1,,2\n1,1,1\n",
            r"in 4 cells \(row 1 of 'a', row 1 of 'b', row 2 of 'a', ...\).* the 3 rows",
        ),
        ("a,y\n1,2\n3,red\n", r"\(row 2 of 'y': 'red'\): 'y' is the target, and a regression predicts numbers"),
        ("a;y\n1,5;2\n3;4\n", r"text in 1 cell \(row 1 of 'a': '1,5'\): dataset.decimal=comma"),
        (
            "a;y\n1,500;2\n3;4\n",
            r"row 1 of 'a': '1,500'\): dataset.decimal=comma reads '1,500' as 1.5, dataset.thousands=comma .* as 1500",
        ),
        (
            "a;y\n1.500,5;2\n3;4\n",
            r"row 1 of 'a': '1.500,5'\): dataset.decimal=comma dataset.thousands=point reads '1.500,5' as 1500.5",
        ),
        ("a,y\n2024-01-31,2\n2024-02-01,4\n", r"holds dates in 2 cells .*: dataset.dates=auto converts dates to days"),
        ("a,y\n31.1.2024,2\n1.2.2024,4\n", r"in 2 cells .*: dataset.dates=auto dataset.date_format=%d.%m.%Y"),
        ("a,y\n1,2\n?,4\n3,4\n5,6\n", r"'\?'\): if it means a missing value, set 'dataset.na_values=\[\"\?\"\]'"),
        ("1,2,0.5\n4,5,6\n7,8,9\n", r"first row of .*t.csv holds only numbers \(1, 2, 0.5\).*dataset.header=false"),
        ("a,a,y\n1,2,3\n4,5,6\n", r"more than one column 'a'; the later are read as 'a.1': 'dataset.drop=\[\"a.1\"\]'"),
        ("y,a,y\n1,2,3\n4,5,6\n", r"more than one column 'y'; the later are read as 'y.1'"),
        (",a,y\n1,2,3\n4,5,6\n", r"without a name, read as 'Unnamed: 0': 'dataset.drop=\[\"Unnamed: 0\"\]' leaves it"),
        ("a,b,y\n1,2,1\n4,5,4\n", r"'a' of .*t.csv equals the target 'y' in every row: 'dataset.drop=\[a\]'"),
    ],
)
def test_an_unusable_user_table_is_refused(text: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=sentence) as refusal:
        own(tmp_path, text)
    assert "\n" not in str(refusal.value)


COUNTED = "id,a,y\n" + "\n".join(f"{(7 * row) % 10 + 1},{row % 3},{row * row}" for row in range(10))


def test_a_column_of_row_numbers_is_refused_with_both_settings(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"'id' of .* numbers the rows.*'dataset.drop=\[id\]'.*'dataset.keep=\[id\]'"):
        own(tmp_path, COUNTED)
    assert own(tmp_path, COUNTED, drop=["id"]).feature_names == ("a",)
    assert own(tmp_path, COUNTED, keep=["id"]).feature_names == ("id", "a")
    assert own(tmp_path, COUNTED, drop=["a"]).feature_names == ("id",)  # nothing else is there to learn from


def test_repeated_and_missing_names_can_be_kept_or_left_out(tmp_path: Path) -> None:
    text = "a,a,,y\n1,2,3,4\n5,6,7,8\n"
    assert own(tmp_path, text, keep=["a.1"], drop=["Unnamed: 2"]).X.tolist() == [[1, 2], [5, 6]]
    assert own(tmp_path, text, drop=["a.1"], keep=["Unnamed: 2"]).X.tolist() == [[1, 3], [5, 7]]


def test_a_file_without_a_header_keeps_its_first_row(tmp_path: Path) -> None:
    table = own(tmp_path, "1,2,0.5\n4,5,6\n", header=False, target="3")
    assert (table.X.tolist(), table.y.tolist(), table.feature_names) == ([[1, 2], [4, 5]], [0.5, 6], ("1", "2"))
    assert own(tmp_path, "1,2,3\n4,5,6\n7,8,9\n", header=True, target="3").num_rows == 2


@pytest.mark.parametrize("header", [True, False])
def test_empty_rows_above_the_table_are_skipped(header: bool, tmp_path: Path) -> None:
    pd.DataFrame({"1": [1, 2], "2": [3, 4]}).to_excel(tmp_path / "t.xlsx", index=False, header=header, startrow=2)
    workbook = load({**specs()["csv"], "path": str(tmp_path / "t.xlsx"), "target": "2", "header": header})
    text = own(tmp_path, "\n\n" + "1,2\n" * header + "1,3\n2,4\n", header=header, target="2")
    assert workbook.X.tolist() == text.X.tolist() == [[1], [2]]


def test_marks_of_other_countries_are_read(tmp_path: Path) -> None:
    text = "a;b;y\n1.500,25;-0,5;2\n3,5;1;4\n"
    assert own(tmp_path, text, decimal="comma", thousands="point").X.tolist() == [[1500.25, -0.5], [3.5, 1]]
    assert own(tmp_path, 'a,y\n"1,500",2\n3,4\n', thousands="comma").X.tolist() == [[1500], [3]]


def test_texts_that_mark_missing_values_can_be_named(tmp_path: Path) -> None:
    assert own(tmp_path, "a,y\n1,2\n?,4\n3,4\n", na_values=["?"], missing="drop").X.tolist() == [[1], [3]]


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
def test_a_named_encoding_is_used(encoding: str, tmp_path: Path) -> None:
    assert own(tmp_path, "é,y\n1,2\n3,4\n".encode(encoding), encoding=encoding).feature_names == ("é",)


def test_an_encoding_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"dataset.encoding=klingon is not a text encoding"):
        own(tmp_path, "a,y\n1,2\n3,4\n", encoding="klingon")


@pytest.mark.parametrize("name", ["t.csv.gz", "t.csv.bz2", "t.csv.xz", "t.tsv", "t.parquet", "t.xlsx"])
def test_every_format_gives_the_same_table_by_its_ending(name: str, tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [0.1, 2.0], "y": [3, 4]})
    write = {".parquet": frame.to_parquet, ".xlsx": frame.to_excel, ".tsv": partial(frame.to_csv, sep="\t")}
    write.get(Path(name).suffix, frame.to_csv)(tmp_path / name, index=False)
    table = load({**specs()["csv"], "path": str(tmp_path / name), "target": "y"})
    assert table.name == f"t-{own(tmp_path, 'a,y' + chr(10) + '0.1,3' + chr(10) + '2,4' + chr(10)).digest_xy[:8]}"


@pytest.mark.parametrize("name", ["t.parquet", "t.xlsx", "t.xls", "t.csv.gz", "t.csv.xz"])
def test_a_file_that_contradicts_its_suffix_is_a_clean_error(name: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"t\.[a-z.]+ (is not|cannot be read)") as refusal:
        own(tmp_path, b"a,y\n1,2\n3,4\n", name)
    assert "\n" not in str(refusal.value)


def test_a_workbook_with_several_sheets_needs_a_choice(tmp_path: Path) -> None:
    with pd.ExcelWriter(tmp_path / "t.xlsx") as book:
        for sheet, factor in (("first", 1), ("second", 10)):
            pd.DataFrame({"a": [factor, 2], "y": [3, 4]}).to_excel(book, sheet_name=sheet, index=False)
    spec = {**specs()["csv"], "path": str(tmp_path / "t.xlsx"), "target": "y"}
    with pytest.raises(UserError, match=r"holds the sheets first, second: choose one with dataset.sheet=NAME"):
        load(spec)
    assert load({**spec, "sheet": "second"}).X.tolist() == [[10], [2]]


def test_an_index_stored_in_parquet_needs_a_choice(tmp_path: Path) -> None:
    pd.DataFrame({"a": [1, 2], "y": [3, 4]}, index=pd.Index(["x", "z"], name="who")).to_parquet(tmp_path / "t.parquet")
    spec = {**specs()["csv"], "path": str(tmp_path / "t.parquet"), "target": "y"}
    with pytest.raises(UserError, match=r"has an index .* read as 'who': 'dataset.drop=\[who\]' leaves it out"):
        load(spec)
    assert load({**spec, "drop": ["who"]}).feature_names == ("a",)
    kept = load({**spec, "keep": ["who"], "categorical": "auto"})
    assert kept.encoded(np.arange(2))[1].feature_names == ("who=x", "who=z", "a")


def test_a_workbook_names_its_columns_in_the_first_row(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [1, 2], "y": [3, 4]})
    frame.to_excel(tmp_path / "t.xlsx", index=False, startrow=2)
    spec = {**specs()["csv"], "path": str(tmp_path / "t.xlsx"), "target": "y"}
    assert load(spec).X.tolist() == [[1], [2]]
    frame.to_excel(tmp_path / "t.xlsx", index=False, startrow=1)
    with pd.ExcelWriter(tmp_path / "t.xlsx", mode="a", if_sheet_exists="overlay") as book:
        book.sheets["Sheet1"]["A1"] = "Prices of 2024"
    with pytest.raises(UserError, match=r"row 2 has 2 cells \(a, y\), its header 1: delete titles"):
        load(spec)


def test_dates_of_a_workbook_are_not_numbers_and_booleans_are_1_and_0(tmp_path: Path) -> None:
    frame = pd.DataFrame({"d": pd.to_datetime(["1970-01-03", "1970-01-02"]), "b": [True, False], "y": [3, 4]})
    frame.to_excel(tmp_path / "t.xlsx", index=False)
    spec = {**specs()["csv"], "path": str(tmp_path / "t.xlsx"), "target": "y"}
    with pytest.raises(UserError, match=r"holds dates in 2 cells .*dataset.dates=auto"):
        load(spec)
    table = load({**spec, "dates": "auto"})
    assert table.encoded(np.arange(2))[0].tolist() == [[2, 1], [1, 0]]


def test_a_misspelt_target_gets_a_suggestion(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="did you mean price"):
        own(tmp_path, "a,price\n1,2\n3,4\n", target="prize")


@pytest.mark.parametrize("missing", ["path", "target"])
def test_path_and_target_must_be_given_and_hydras_quotes_are_explained(missing: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"dataset.path=FILE and dataset.target=COLUMN.*commas, = or brackets"):
        own(tmp_path, "a,y\n1,2\n", **{missing: None})


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nothing.csv cannot be read: No such file"):
        load({**specs()["csv"], "path": str(tmp_path / "nothing.csv"), "target": "y"})


@pytest.mark.parametrize(("name", "expected"), [("a/b=c,d[1].csv", "b_c_d_1"), ("..csv", "table"), ("é.csv", "table")])
def test_the_stem_is_fit_for_a_folder(name: str, expected: str) -> None:
    assert stem(Path(name)) == expected


def test_a_csv_split_is_drawn_like_any_other(tmp_path: Path) -> None:
    from dgpbench.data.splits import InterpolationSettings, make_split

    split = make_split(
        own(tmp_path, "a,y\n1,2\n3,4\n"), InterpolationSettings("interpolation", train_fraction=0.9), 0, specs()["csv"]
    )
    assert np.sort([*split.train, *split.test]).tolist() == [0, 1]
