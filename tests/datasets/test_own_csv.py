"""The user's own table, and one sentence for each thing that can be wrong with it."""

from pathlib import Path

import numpy as np
import pytest

from dgpbench.datasets.own_csv import separator_of, stem
from dgpbench.datasets.registry import load, specs
from dgpbench.datasets.table import Table
from dgpbench.errors import Refused


def own(tmp_path: Path, text: str | bytes, name: str = "t.csv", **options: object) -> Table:
    file = tmp_path / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load({**specs()["csv"], "path": str(file), "target": "y", **options})


def test_a_table_is_read_with_its_names_and_known_by_its_digest(tmp_path: Path) -> None:
    table = own(tmp_path, "a,y,b\n1,2,3\n4,5,6\n", "my table (1).csv")
    assert table.X.tolist() == [[1, 3], [4, 6]]
    assert table.y.tolist() == [2, 5]
    assert (table.feature_names, table.target_name, table.verified) == (("a", "b"), "y", "own")
    assert table.name == f"my_table_1-{table.digest_xy[:8]}"


def test_two_tables_of_one_name_have_two_identities(tmp_path: Path) -> None:
    assert own(tmp_path, "a,y\n1,2\n3,4\n").name != own(tmp_path, "a,y\n1,2\n3,5\n").name


@pytest.mark.parametrize("separator", [",", ";", "\t", "|", "  "])
def test_the_separator_is_found(separator: str, tmp_path: Path) -> None:
    text = f"a{separator}b{separator}y\n1.5{separator}2{separator}3\n4{separator}5{separator}6\n"
    assert own(tmp_path, text).X.tolist() == [[1.5, 2], [4, 5]]


def test_a_separator_within_quotes_does_not_count() -> None:
    assert separator_of('"a, the first";"b, c, d";y') == ";"


def test_a_separator_can_be_given(tmp_path: Path) -> None:
    assert own(tmp_path, "a:y\n1:2\n3:4\n", separator=":").X.tolist() == [[1], [3]]


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
        ("a,Y\n1,2\n3,4\n", r"dataset.target=y names no column; there are a, Y"),
        ("a,b,y\n1,2,3\n4,red,6\n", r"column 'b', row 2 of .*t.csv holds the text 'red'"),
        ("a,b,y\n1,2,3\n4,True,6\n", r"column 'b', row 2 of .*t.csv holds the text 'True'"),
        ("a,b,y\n1,True,3\n4,False,6\n", r"column 'b', row 1 of .*t.csv holds the text 'True'"),
        ("a,y\n1,2\n3,\n5,6\n", r"column 'y', row 2 of .*t.csv holds no number \(NaN\)"),
        ("a,y\n1,2\nnan,3\n5,6\n", r"column 'a', row 2 of .*t.csv holds no number \(NaN\)"),
        ("a,y\n1,2\n3,4\ninf,6\n", r"column 'a', row 3 of .*t.csv holds an infinite number"),
        ("a,y\n1,2\n3,2\n", r"the target 'y' of .*t.csv is 2 in every row"),
        ("a,y\n1,2\n", r"t.csv holds 1 row below its header: a regression needs at least 2"),
        ("a,y\n", r"t.csv holds 0 rows below its header"),
        ("y\n1\n2\n", r"t.csv holds no column beside the target 'y'"),
        ("", r"t.csv is no table with a header row"),
        ("a,y\n1,2,3\n4,5,6\n", r"t.csv is no table with a header row"),
        ("a,y\n1,2\n4,5,6\n", r"t.csv is no table with a header row"),
        (b"\xff\xfe\x00a", r"t.csv is no table with a header row"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused_in_one_sentence(text: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(Refused, match=sentence) as refusal:
        own(tmp_path, text)
    assert "\n" not in str(refusal.value)


def test_a_target_with_a_slip_gets_the_name_that_was_meant(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="did you mean 'price'"):
        own(tmp_path, "a,price\n1,2\n3,4\n", target="prize")


@pytest.mark.parametrize("missing", ["path", "target"])
def test_path_and_target_must_be_given_and_hydras_quotes_are_explained(missing: str, tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"dataset.path=FILE and dataset.target=COLUMN.*commas, = or brackets"):
        own(tmp_path, "a,y\n1,2\n", **{missing: None})


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"nothing.csv cannot be read: No such file"):
        load({**specs()["csv"], "path": str(tmp_path / "nothing.csv"), "target": "y"})


@pytest.mark.parametrize(("name", "expected"), [("a/b=c,d[1].csv", "b_c_d_1"), ("..csv", "table"), ("é.csv", "table")])
def test_the_stem_is_fit_for_a_folder(name: str, expected: str) -> None:
    assert stem(Path(name)) == expected


def test_a_csv_split_is_drawn_like_any_other(tmp_path: Path) -> None:
    from dgpbench.datasets.tasks import InterpolationSettings, make_split

    split = make_split(
        own(tmp_path, "a,y\n1,2\n3,4\n"), InterpolationSettings("interpolation", train_fraction=0.9), 0, specs()["csv"]
    )
    assert np.sort([*split.train, *split.test]).tolist() == [0, 1]
