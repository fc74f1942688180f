"""Models of tables with categories, gaps and decimal commas: new rows are read, and encoded, as training rows were."""

import json

import fit_once
import numpy as np
import pandas as pd
import pytest

from dgpbench import DeepGPRegressor, load

FEW = ("method=gpr", "budget=smoke", "training.max_iterations=4", "progress=false")
READ = ("dataset.decimal=comma", "dataset.categorical=auto", "dataset.missing=impute")


def table(number: int, seed: int, colours: list[str]) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    size, colour = rng.uniform(-2, 2, number), np.resize(colours, number)
    price = 3 * size + 2.5 * (colour == "red") + 0.1 * rng.normal(size=number)
    size[1] = np.nan
    return pd.DataFrame({"size": size, "colour": colour, "price": price})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Training rows of red and blue, and test rows with every third one green."""
    folder = tmp_path_factory.mktemp("own")
    german = {"index": False, "sep": ";", "decimal": ","}
    table(40, 0, ["red", "blue"]).to_csv(folder / "train.csv", **german)
    table(12, 1, ["red", "blue", "green"]).to_csv(folder / "test.csv", **german)
    return folder


@pytest.fixture(scope="module")
def ran(folder):
    """A run with its own file of test rows."""
    return fit_once.run(folder / "results", *own(folder), f"dataset.test_path={folder / 'test.csv'}", *FEW[:3])


def own(folder):
    return ("dataset=csv", f"dataset.path={folder / 'train.csv'}", "dataset.target=price", *READ)


@pytest.mark.full
def test_columns_of_a_test_file_are_encoded_by_the_training_rows_alone(ran):
    assert (ran.record["data"]["n_train"], ran.record["data"]["n_test"]) == (40, 12)
    size, colour = ran.record["data"]["columns"]
    assert colour["categories"] == ["blue", "red"]
    assert (size["gaps"], size["fill"]) == (1, np.nanmedian(table(40, 0, ["red", "blue"])["size"]))


def test_new_rows_of_a_run_are_read_and_encoded_as_its_test_rows_were(ran, folder, tmp_path):
    arguments = (str(folder / "test.csv"), "--output", str(tmp_path / "out.csv"))
    assert fit_once.command("predict", str(ran.directory), *arguments) == 0
    np.testing.assert_allclose(pd.read_csv(tmp_path / "out.csv")["mean"], ran.points["mean"], rtol=1e-9)


@pytest.mark.full
def test_a_saved_model_describes_its_columns_and_requires_frames(folder, tmp_path, capsys):
    assert fit_once.command("fit", *own(folder), *FEW, "--holdout", "0", "--output", str(tmp_path / "model")) == 0
    assert "colour=red" in json.dumps(json.loads((tmp_path / "model" / "model.json").read_text()))
    assert "colour" in capsys.readouterr().out
    model, new = load(tmp_path / "model"), table(6, 2, ["red", "blue"]).drop(columns="price")
    assert np.isfinite(model.predict(new)).all()
    with pytest.raises(ValueError, match="pass a DataFrame"):
        model.predict(np.zeros((3, 2)))


def test_columns_that_are_not_needed_are_ignored_on_every_path(ran, folder, tmp_path):
    """Words, mixed types and an invalid price, before and between the required columns."""
    rows = pd.read_csv(folder / "test.csv", sep=";", decimal=",")
    mixed = np.resize(np.array([1, "a", None], dtype=object), len(rows))
    more = rows.assign(price="unknown", note="a, b", mixed=mixed)[["note", "price", "size", "mixed", "colour"]]
    more.to_csv(folder / "more.csv", index=False, sep=";", decimal=",")
    arguments = (str(folder / "more.csv"), "--output", str(tmp_path / "out.csv"))
    assert fit_once.command("predict", str(ran.directory), *arguments) == 0
    np.testing.assert_allclose(pd.read_csv(tmp_path / "out.csv")["mean"], ran.points["mean"], rtol=1e-9)
    np.testing.assert_array_equal(
        load(ran.directory).predict(more), load(ran.directory).predict(rows[["size", "colour"]])
    )
    train = table(40, 0, ["red", "blue"])
    settings = {"dataset.categorical": "auto", "dataset.missing": "impute"}
    fitted = DeepGPRegressor("gpr", budget="smoke", settings=settings).fit(train.drop(columns="price"), train["price"])
    np.testing.assert_array_equal(fitted.predict(more), fitted.predict(rows[["size", "colour"]]))


@pytest.mark.full
def test_the_estimator_accepts_texts_gaps_and_dates_by_its_settings(tmp_path):
    frame = table(40, 0, ["red", "blue"]).assign(sold=[f"2024-03-{1 + i % 28:02}" for i in range(40)])
    settings = {"dataset.categorical": "auto", "dataset.missing": "impute", "dataset.dates": ["sold"]}
    fitted = DeepGPRegressor("gpr", budget="smoke", settings=settings).fit(frame.drop(columns="price"), frame["price"])
    names = fitted.model_.description.encoder.feature_names
    assert names == ("size", "size=(missing)", "colour=blue", "colour=red", "sold")
    new = pd.DataFrame({"colour": ["red", "green"], "sold": ["2024-04-01", "2024-02-01"], "size": [0.5, np.nan]})
    fitted.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    np.testing.assert_array_equal(
        loaded.predict(new[list(loaded.feature_names_in_)]), fitted.predict(new[["size", "colour", "sold"]])
    )
    assert loaded.settings == settings
    seen = fitted.model_.inputs(new)
    np.testing.assert_array_equal(seen[:, 2:], [[0, 1, 19814], [0, 0, 19754]])
    with pytest.raises(ValueError, match=r"holds text in 40 cells .*dataset.categorical=auto"):
        DeepGPRegressor("gpr", budget="smoke").fit(frame[["colour"]], frame["price"])


def test_a_word_among_the_numbers_of_a_test_file_is_refused_with_its_row(folder, tmp_path, capsys):
    (tmp_path / "test.csv").write_text("price;size;colour\n1,5;2;red\n1,5;tall;red\n")
    assert fit_once.command("run", *own(folder), *FEW, f"dataset.test_path={tmp_path / 'test.csv'}") == 2
    assert f"{tmp_path / 'test.csv'} holds text in 1 cell (row 2 of 'size': 'tall')" in capsys.readouterr().err


def test_a_test_file_without_rows_is_refused(folder, tmp_path, capsys):
    (tmp_path / "test.csv").write_text("price;size;colour\n")
    assert fit_once.command("run", *own(folder), *FEW, f"dataset.test_path={tmp_path / 'test.csv'}") == 2
    assert "there are no test rows" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("sizes", "sentence"),
    [
        ([np.nan] * 4, "the table has 0 rows, and 4 left out because of missing values: a regression needs at least 2"),
        ([1.0] + [np.nan] * 3, "the table has 1 row, and 3 left out because of missing values"),
        ([1.0], "the table has 1 row: a regression needs at least 2"),
    ],
)
def test_fewer_than_two_rows_of_a_frame_are_refused(sizes, sentence):
    regressor = DeepGPRegressor("gpr", budget="smoke", settings={"dataset.missing": "drop"})
    with pytest.raises(ValueError, match=sentence):
        regressor.fit(pd.DataFrame({"size": sizes}), [1.0, 2.0, 3.0, 5.0][: len(sizes)])


def test_booleans_among_numbers_are_not_numbers():
    frame = pd.DataFrame({"a": [True, 3, 4, 5]}, dtype=object)
    with pytest.raises(ValueError, match=r"holds text in 1 cell \(row 1 of 'a': 'True'\)"):
        DeepGPRegressor("gpr", budget="smoke").fit(frame, [1.0, 2.0, 3.0, 5.0])
