"""Formats without an upstream file at hand, tested on files of the same form."""

import io

import numpy as np
import pytest

from dgpbench.data.published import READERS, read

A = [[0.1, 2.0, 3.5], [4.0, -5.25, 6e-3]]


@pytest.mark.parametrize(
    ("reader", "text"),
    [
        ({"format": "whitespace"}, " 0.1  2\t3.5\n4 -5.25 6e-3 \n\n"),
        (
            {"format": "statlib", "header_lines": 2, "num_columns": 3},
            " About\n the data\n 0.1 2\n 3.5\n 4 -5.25\n 6e-3\n",
        ),
        ({"format": "csv"}, '"a", "b", "c"\n0.1, 2, 3.5\n4, -5.25, 6e-3\n'),
        ({"format": "csv", "separator": ";"}, '"a";"b";"c"\r\n0.1;2;3.5\r\n4;-5.25;6e-3\r\n'),
        ({"format": "csv", "header": False}, "0.1,2,3.5\n4,-5.25,6e-3"),
        (
            {"format": "arff"},
            "@relation t\n@attribute a real\n@attribute b numeric\n@attribute c real\n@data\n0.1,2,3.5\n4,-5.25,6e-3\n",
        ),
    ],
)
def test_a_text_format_gives_every_column_in_the_order_of_the_file(reader: dict, text: str) -> None:
    np.testing.assert_array_equal(read(io.BytesIO(text.encode()), reader), A)


def test_empty_rows_and_columns_of_a_sheet_are_dropped() -> None:
    import openpyxl

    book = openpyxl.Workbook()
    book.create_sheet("Sheet5")
    for row in [["a", "b", "c", "d"], [*A[0], None], [None] * 4, [*A[1], None]]:
        book["Sheet5"].append(row)
    book.save(file := io.BytesIO())
    np.testing.assert_array_equal(read(file, {"format": "excel", "sheet": "Sheet5"}), A)


def test_csv_parses_to_the_nearest_float() -> None:
    texts = [repr(float(x)) for x in np.random.Generator(np.random.PCG64(0)).standard_normal(2000) * 1e-7]
    parsed = read(io.BytesIO("\n".join(["x", *texts]).encode()), {"format": "csv"})
    assert parsed[:, 0].tolist() == [float(text) for text in texts]


@pytest.mark.parametrize("reader", sorted(READERS))
def test_no_reader_unpickles(reader: str) -> None:
    class Boom:
        def __reduce__(self) -> tuple:
            return (pytest.fail, ("unpickled",))

    import pickle

    options = {"header_lines": 0, "num_columns": 1} if reader == "statlib" else {}
    with pytest.raises(Exception):  # noqa: B017  each reader has its own; pytest.fail is none of them
        read(io.BytesIO(pickle.dumps(Boom())), {"format": reader, **options})
