"""``dgpbench fit`` and ``dgpbench predict``: from a table to predictions of new rows."""

import json
import shutil

import fit_once
import numpy as np
import pandas as pd
import pytest
from one_record import forge
from scipy.stats import norm

from dgpbench import load, saved_model

FEW = ("method=gpr", "budget=smoke", "training.max_iterations=4", "progress=false")


def table(number: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    a, b = rng.uniform(-2, 2, size=(2, number))
    return pd.DataFrame({"a": a, "b": b, "price": 500 + 40 * np.sin(2 * a) + 9 * b + rng.normal(size=number)})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """houses.csv, test.csv without prices, and a model of the first."""
    folder = tmp_path_factory.mktemp("own")
    table(50).to_csv(folder / "houses.csv", index=False)
    table(23, seed=1).drop(columns="price").to_csv(folder / "new.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def message(folder):
    """What ``fit`` prints."""
    import contextlib
    import io

    with contextlib.redirect_stdout(io.StringIO()) as text:
        assert fit(folder, "--output", str(folder / "model")) == 0
    return text.getvalue()


def fit(folder, *more):
    return fit_once.command(
        "fit", "dataset=csv", f"dataset.path={folder / 'houses.csv'}", "dataset.target=price", *FEW, *more
    )


def predict(folder, output, *more, table="new.csv"):
    return fit_once.command("predict", str(folder / "model"), str(folder / table), "--output", str(output), *more)


@pytest.mark.full
def test_fit_scores_a_held_out_part_and_then_trains_on_all_rows(message, folder):
    assert "5 rows held out at random, predicted by a fit to the other 45" in message
    assert "gpr (L = 1) fitted to all 50 rows" in message
    facts = json.loads((folder / "model" / "model.json").read_text())
    assert facts["about"]["num_train"] == 50
    assert f"{facts['about']['scores']['rmse']:.4f}" in message
    with np.load(folder / "model" / "parameters.npz") as arrays:
        assert len(arrays["training_rows"]) == 50


@pytest.mark.full
def test_held_out_rows_do_not_enter_the_scales_of_the_fit_that_is_scored(folder, tmp_path, monkeypatch):
    from dgpbench.runs import problem

    sizes, usual = [], problem.Standardiser.fit
    monkeypatch.setattr(
        problem.Standardiser, "fit", lambda X, *more, **named: (sizes.append(len(X)), usual(X, *more, **named))[1]
    )
    assert fit(folder, "--output", str(tmp_path / "model")) == 0
    assert sizes == [45, 50]


@pytest.mark.full
def test_a_model_refitted_in_the_same_folder_predicts_with_the_new_fit(folder, tmp_path):
    place, new = str(tmp_path / "model"), pd.read_csv(folder / "new.csv")
    found = []
    for method in ("gpr", "sgpr"):
        assert fit(folder, f"method={method}", "--holdout", "0", "--output", place) == 0
        found.append(load(place).predict(new))
        shutil.rmtree(place)
    assert not np.array_equal(*found)


def test_without_a_holdout_nothing_is_scored(folder, tmp_path, capsys):
    assert fit(folder, "--holdout", "0", "--output", str(tmp_path / "model")) == 0
    assert "held out" not in capsys.readouterr().out


def test_predictions_are_mean_deviation_and_quantiles_of_each_row(message, folder, tmp_path):
    assert predict(folder, tmp_path / "out.csv", "--quantiles", "0.1,0.9") == 0
    found = pd.read_csv(tmp_path / "out.csv", float_precision="round_trip")
    assert found.columns.tolist() == ["mean", "standard_deviation", "q0.1", "q0.9"]
    estimator, new = load(folder / "model"), pd.read_csv(folder / "new.csv", float_precision="round_trip")
    mean, deviation = estimator.predict(new, return_std=True)
    np.testing.assert_allclose(found["mean"], mean, rtol=1e-9)
    np.testing.assert_allclose(found["standard_deviation"], deviation, rtol=1e-9)
    np.testing.assert_allclose(found["q0.9"], mean + 1.2815515655446004 * deviation, rtol=1e-9)
    truth = table(23, seed=1)["price"]
    assert np.sqrt(np.mean((truth - mean) ** 2)) < 0.5 * truth.std()


def test_columns_are_copied_to_the_predictions_as_they_are(message, folder, tmp_path, capsys):
    new = pd.read_csv(folder / "new.csv", float_precision="round_trip")
    new = new.assign(id=[f"00{row}" for row in range(len(new))], mean=1.0, code=[0.1 + 0.2] * len(new))
    new.to_csv(folder / "named.csv", index=False)
    assert predict(folder, tmp_path / "out.csv", "--id", "id", "--id=code", "--id=id", table="named.csv") == 0
    found = pd.read_csv(tmp_path / "out.csv", dtype=str)
    assert found.columns.tolist() == ["id", "code", "mean", "standard_deviation", "q0.05", "q0.5", "q0.95"]
    assert found["code"].tolist() == ["0.30000000000000004"] * len(new)
    plain = [int(text) for text in found["id"]]
    assert plain == list(range(len(new)))
    assert predict(folder, tmp_path / "no.csv", "--id", "idd", table="named.csv") == 2
    assert "--id idd is not a column of" in (error := capsys.readouterr().err)
    assert "did you mean id?" in error
    assert predict(folder, tmp_path / "no.csv", "--id", "mean", table="named.csv") == 2
    assert "the predictions have a column of that name" in capsys.readouterr().err


def test_copied_columns_stay_beside_their_rows_in_every_part(message, folder, tmp_path, monkeypatch):
    new = pd.read_csv(folder / "new.csv", float_precision="round_trip")
    new.assign(row=range(len(new))).to_csv(folder / "numbered.csv", index=False)
    assert predict(folder, tmp_path / "whole.csv", "--id", "row", table="numbered.csv") == 0
    monkeypatch.setattr("dgpbench.commands.predict.ROWS_AT_ONCE", 5)
    assert predict(folder, tmp_path / "parts.csv", "--id", "row", table="numbered.csv") == 0
    assert (tmp_path / "whole.csv").read_text() == (tmp_path / "parts.csv").read_text()


def test_predictions_have_ten_significant_digits_at_most(message, folder, tmp_path):
    assert predict(folder, tmp_path / "out.csv") == 0
    cells = pd.read_csv(tmp_path / "out.csv", dtype=str).to_numpy().ravel()
    assert max(len(cell.replace(".", "").lstrip("-0")) for cell in cells) == 10


def test_predictions_far_from_zero_have_the_digits_of_their_deviation(tmp_path):
    rows = table(50)
    rows.assign(price=1e12 + rows["price"]).to_csv(tmp_path / "houses.csv", index=False)
    assert fit(tmp_path, "--holdout", "0", "--output", str(tmp_path / "model")) == 0
    assert predict(tmp_path, tmp_path / "out.csv", table="houses.csv") == 0
    written = pd.read_csv(tmp_path / "out.csv", float_precision="round_trip")
    mean, deviation = load(tmp_path / "model").predict(rows[["a", "b"]], return_std=True)
    np.testing.assert_allclose((written["mean"] - mean) / deviation, 0, atol=1e-3)
    np.testing.assert_allclose((written["q0.95"] - mean) / deviation, norm.ppf(0.95), atol=1e-3)


def test_quantiles_that_differ_have_columns_of_their_own(message, folder, tmp_path):
    assert predict(folder, tmp_path / "out.csv", "--quantiles", "0.9999999,0.99999991,0.5,1e-7") == 0
    columns = pd.read_csv(tmp_path / "out.csv").columns.tolist()
    assert columns[2:] == ["q0.9999999", "q0.99999991", "q0.5", "q1e-07"]


def test_a_fit_draws_the_rows_that_it_held_out(message, folder):
    assert f"picture: {folder / 'model' / 'figure.png'}" in message
    assert (folder / "model" / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_show_prints_of_a_model_what_fit_printed(message, folder, capsys):
    assert fit_once.command("show", str(folder / "model")) == 0
    shown = capsys.readouterr().out
    assert "5 rows held out at random, predicted by a fit to the other 45:" in shown
    assert set(message.splitlines()) - set(shown.splitlines()) == {
        "  the scores above are those of the first fit; this one has seen every row",
        f"picture: {folder / 'model' / 'figure.png'}",
    }
    assert "method: name=gpr, num_layers=1" in shown
    assert fit_once.command("show", str(folder / "model"), "--json") == 0
    assert json.loads(capsys.readouterr().out)["choices"]["method"] == "gpr"
    assert fit_once.command("show", str(folder / "model"), "--plot") == 2
    assert "is a model: it has no runs to draw" in capsys.readouterr().err


def test_columns_are_found_by_name_and_others_do_not_matter(message, folder, tmp_path):
    new = pd.read_csv(folder / "new.csv", float_precision="round_trip")
    new[["b", "a"]].assign(colour="red", price=0).to_csv(folder / "turned.csv", index=False, sep=";")
    assert predict(folder, tmp_path / "one.csv") == predict(folder, tmp_path / "two.csv", table="turned.csv") == 0
    assert (tmp_path / "one.csv").read_text() == (tmp_path / "two.csv").read_text()


def test_columns_that_the_model_does_not_use_are_not_checked(message, folder, tmp_path, capsys):
    rows = (folder / "new.csv").read_text().splitlines()[1:]
    indexed = [",a,b,c,c", *(f"{number},{row},1,2" for number, row in enumerate(rows))]
    (folder / "indexed.csv").write_text("\n".join(indexed))
    assert predict(folder, tmp_path / "one.csv") == predict(folder, tmp_path / "two.csv", table="indexed.csv") == 0
    assert (tmp_path / "one.csv").read_text() == (tmp_path / "two.csv").read_text()
    assert predict(folder, tmp_path / "three.csv", "dataset.drop=[c]") == 2
    assert "columns that are not in the training table are ignored" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("word", "mark"), [("comma", ","), ("semicolon", ";"), ("tab", "\t"), ("bar", "|"), ("blanks", "  ")]
)
def test_a_separator_has_a_name(word, mark, message, folder, tmp_path):
    (folder / "marked.csv").write_text((folder / "new.csv").read_text().replace(",", mark))
    assert predict(folder, tmp_path / "one.csv") == 0
    assert predict(folder, tmp_path / "two.csv", f"dataset.separator={word}", table="marked.csv") == 0
    assert (tmp_path / "one.csv").read_text() == (tmp_path / "two.csv").read_text()


@pytest.mark.parametrize("ending", ["gz", "bz2", "xz"])
def test_predictions_are_packed_by_the_ending_of_their_file(ending, message, folder, tmp_path):
    assert predict(folder, tmp_path / "out.csv") == predict(folder, tmp_path / f"out.csv.{ending}") == 0
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "out.csv"), pd.read_csv(tmp_path / f"out.csv.{ending}"))
    assert (tmp_path / f"out.csv.{ending}").read_bytes()[:2] in (b"\x1f\x8b", b"BZ", b"\xfd7")


@pytest.mark.parametrize("name", ["out.xlsx", "out.parquet", "out.pdf", "out.tsv", "out.xlsx.gz"])
def test_predictions_are_not_written_as_csv_under_another_ending(name, message, folder, tmp_path, capsys):
    assert predict(folder, tmp_path / name) == 2
    assert "predictions are written as csv; end the name in .csv or .csv.gz" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_parts_of_a_file_give_what_the_whole_gives(message, folder, tmp_path, monkeypatch):
    assert predict(folder, tmp_path / "whole.csv") == 0
    monkeypatch.setattr("dgpbench.commands.predict.ROWS_AT_ONCE", 6)
    seen = []
    inputs = saved_model.Model.inputs
    monkeypatch.setattr(
        saved_model.Model, "inputs", lambda self, frame, *more: seen.append(len(frame)) or inputs(self, frame, *more)
    )
    assert predict(folder, tmp_path / "parts.csv") == 0
    assert seen == [6, 6, 6, 5]
    whole, parts = (pd.read_csv(tmp_path / name) for name in ("whole.csv", "parts.csv"))
    pd.testing.assert_frame_equal(whole, parts, rtol=1e-9)


def test_without_an_output_the_table_goes_to_standard_output(message, folder, capsys):
    assert fit_once.command("predict", str(folder / "model"), str(folder / "new.csv"), "--quantiles", "0.5") == 0
    assert len(capsys.readouterr().out.splitlines()) == 24


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("A,b\n1,2\n", "wrong.csv lacks 1 of the 2 columns: 'a'; is 'A' meant to be 'a'?"),
        ("a,b\n1,2\n3,4\n4,red\n", "wrong.csv holds text in 1 cell (row 3 of 'b': 'red'): cells are read as in"),
        ("a,b\n1,2\n3,\n", "no value (NaN) in 1 cell (row 2 of 'b'): the model was not trained to fill gaps"),
        ("a,b\n", "has no rows below its header"),
        ("a,a,b\n1,1,2\n", "wrong.csv has 2 columns named 'a': give each its own name"),
        ("a,b\n1,2\n3,4,5,6\n", "is not a table with a header row"),
    ],
)
def test_new_rows_without_a_prediction_are_refused_and_leave_no_file(text, sentence, message, folder, tmp_path, capsys):
    (folder / "wrong.csv").write_text(text)
    assert predict(folder, tmp_path / "out.csv", table="wrong.csv") == 2
    error = capsys.readouterr().err
    assert error.startswith(f"dgpbench: {folder / 'wrong.csv'}")  # the file is at fault, not the model
    assert sentence in error
    assert list(tmp_path.iterdir()) == []


# Category columns: pandas reads a part with numbers only, or with true and false only, as such -----------------------

MIXED = {"truths": ("TRUE", "FALSE", "unknown"), "codes": ("01", "02", "x"), "sizes": ("1.50", "2.0", "x")}


@pytest.fixture(scope="module", params=MIXED)
def mixed(request, tmp_path_factory):
    """A folder with a model of a table with target 0, 5 or 10 by the category, and the categories as written."""
    folder, known = tmp_path_factory.mktemp("mixed"), MIXED[request.param]
    rows = "".join(f"{c},{5 * number + 0.01 * row}\n" for row in range(9) for number, c in enumerate(known))
    (folder / "train.csv").write_text(f"c,y\n{rows}")
    words = ("dataset=csv", f"dataset.path={folder / 'train.csv'}", "dataset.target=y", "dataset.categorical=[c]")
    assert (
        fit_once.command("fit", *words, "method=gpr", "budget=smoke", "progress=false", f"--output={folder}/model") == 0
    )
    return folder, known


def means(folder, text, *more):
    (folder / "new.csv").write_text(text, encoding="utf-8")
    words = ("predict", str(folder / "model"), str(folder / "new.csv"), *more)
    assert fit_once.command(*words, f"--output={folder}/out.csv") == 0
    return pd.read_csv(folder / "out.csv")["mean"].to_numpy()


@pytest.mark.full
def test_a_category_does_not_depend_on_the_other_rows_of_its_file(mixed, capsys):
    folder, known = mixed
    alone = means(folder, "c\n" + "".join(f"{c}\n" for c in known[:2]))
    together = means(folder, "c\n" + "".join(f"{c}\n" for c in known))
    np.testing.assert_allclose(together, [0, 5, 10], atol=0.5)
    np.testing.assert_allclose(alone, together[:2], rtol=1e-9)
    new = pd.read_csv(folder / "new.csv")
    np.testing.assert_allclose(load(folder / "model").predict(new[new["c"] != known[2]]), alone, rtol=1e-9)
    assert "categories" not in capsys.readouterr().err


@pytest.mark.full
def test_truth_values_and_numbers_are_the_categories_with_their_value(mixed):
    """A frame has True, 1.0 and 1.5 where the file with the training rows had TRUE, 01 and 1.50."""
    folder, known = mixed
    typed = pd.DataFrame({"c": [text == "TRUE" if text.isalpha() else float(text) for text in known[:2]]})
    assert typed["c"].dtype != object
    np.testing.assert_allclose(load(folder / "model").predict(typed), [0, 5], atol=0.5)


@pytest.mark.full
def test_a_category_is_the_same_in_every_part_of_a_file(mixed, monkeypatch):
    folder, known = mixed
    monkeypatch.setattr("dgpbench.commands.predict.ROWS_AT_ONCE", 2)
    np.testing.assert_allclose(means(folder, "c\n" + "".join(f"{c}\n" for c in known * 2)), [0, 5, 10] * 2, atol=0.5)


@pytest.mark.full
def test_categories_that_training_did_not_have_are_named(mixed, capsys):
    folder, known = mixed
    means(folder, f"c\n{known[0]}\nnew\nnew\nother\n")
    message = (
        "has categories in 'c' that are not in the training rows ('new', 'other'), in 3 rows, which count as none of"
    )
    assert message in capsys.readouterr().err
    with pytest.warns(UserWarning, match=r"X has categories in 'c' .* \('new'\), in 1 row, which count"):
        load(folder / "model").predict(pd.DataFrame({"c": ["new"]}))


def test_new_rows_may_be_written_in_another_way_than_those_of_training(message, folder, tmp_path, capsys):
    new = pd.read_csv(folder / "new.csv", float_precision="round_trip")
    new.to_csv(folder / "other.csv", index=False, sep=";", decimal=",", encoding="utf-16")
    assert predict(folder, tmp_path / "one.csv") == 0
    words = ("dataset.encoding=utf-16", "dataset.decimal=comma")
    assert predict(folder, tmp_path / "two.csv", *words, table="other.csv") == 0
    assert (tmp_path / "one.csv").read_text() == (tmp_path / "two.csv").read_text()
    assert predict(folder, tmp_path / "three.csv", "dataset.categorical=auto") == 2
    assert "predict takes settings of how the file is read, dataset.separator, " in capsys.readouterr().err


def test_the_row_of_a_gap_is_counted_through_the_whole_file(message, folder, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("dgpbench.commands.predict.ROWS_AT_ONCE", 3)
    (folder / "gap.csv").write_text("a,b\n" + "1,2\n" * 7 + "1,\n")
    assert predict(folder, tmp_path / "out.csv", table="gap.csv") == 2
    assert "(row 8 of 'b')" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--holdout", "1"), "--holdout=1 cannot be used"),
        (("task=folds",), "fit trains on all rows of one table and has no task"),
        (("split=1",), "has no split"),
        # Its rows would be held out here at another fraction, and scored by a fit that began from them.
        (("init_from=runs/a",), "has no init_from"),
        (("method=sgp", "training.epochs=2"), "training.epochs=2 has no effect beside training.max_iterations=4: set "),
        (("method=starr",), "did you mean star"),
    ],
)
def test_contradictory_fit_options_are_refused_before_anything_runs(arguments, sentence, folder, tmp_path, capsys):
    assert fit(folder, *arguments, "--output", str(tmp_path / "model")) == 2
    assert sentence in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_held_out_target_without_logarithm_is_refused_before_anything_runs(tmp_path, capsys):
    rows = table(50)
    rows.loc[3, "price"] = 0.0
    rows.to_csv(tmp_path / "houses.csv", index=False)
    assert fit(tmp_path, "dataset.target_transform=log", "--output", str(tmp_path / "model")) == 2
    assert "needs a target above 0, and 1 of 50 values are not, the first 0" in capsys.readouterr().err


def test_a_directory_with_other_files_is_not_written_to(folder, tmp_path, capsys):
    (tmp_path / "thesis.tex").write_text("")
    assert fit(folder, "--output", str(tmp_path)) == 2
    assert "holds other files" in capsys.readouterr().err


def test_an_impossible_model_folder_is_refused_before_the_fit(folder, tmp_path, capsys, monkeypatch):
    def fitted(*_, **__):
        raise AssertionError("hours of training before a sentence that was known")

    monkeypatch.setattr("dgpbench.commands.fit.fit_model", fitted)
    (tmp_path / "afile").write_text("")
    assert fit(folder, "--output", str(tmp_path / "afile" / "m")) == 2
    assert "afile/m cannot be written (Not a directory" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["afile"]


def test_a_fit_that_ends_without_a_model_leaves_no_folder(folder, tmp_path, capsys):
    assert fit(folder, "method.max_rows=10", "--output", str(tmp_path / "model")) == 2
    assert "at most 10" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("given", ["0.05,2", "half", "0"])
def test_quantiles_are_probabilities(given, message, folder, tmp_path, capsys):
    assert predict(folder, tmp_path / "out.csv", "--quantiles", given) == 2
    assert f"--quantiles={given} cannot be used" in capsys.readouterr().err


# Records, and a test file of the user's own


@pytest.fixture(scope="module")
def ran(folder):
    """A run with its own file of test rows."""
    table(9, seed=2)[["price", "b", "a"]].to_csv(folder / "test.csv", index=False)
    return fit_once.run(folder / "results", *own(folder), *FEW[:3])


def own(folder):
    paths = (f"dataset.path={folder / 'houses.csv'}", f"dataset.test_path={folder / 'test.csv'}")
    return ("dataset=csv", *paths, "dataset.target=price")


@pytest.mark.full
def test_a_file_of_test_rows_is_the_split(ran):
    assert (ran.record["data"]["n_train"], ran.record["data"]["n_test"]) == (50, 9)
    np.testing.assert_array_equal(ran.points["y"], table(9, seed=2)["price"])
    assert ran.record["identity"]["task"] == "fixed"


def test_the_test_file_is_part_of_the_identity(ran, folder, tmp_path):
    import hashlib

    files = ran.record["data"]["files"]
    assert [file["origin"] for file in files] == ["houses.csv", "test.csv"]
    assert files[1]["sha256"] == hashlib.sha256((folder / "test.csv").read_bytes()).hexdigest()
    before = fit_once.identity(*own(folder), *FEW).directory
    assert before in ran.directory.parents or ran.directory.match(f"*/{before}")
    table(8, seed=3).to_csv(tmp_path / "test.csv", index=False)
    changed = [text.replace(str(folder / "test.csv"), str(tmp_path / "test.csv")) for text in own(folder)]
    assert fit_once.identity(*changed, *FEW).directory.parts[2] != before.parts[2]


def test_a_file_of_test_rows_beside_a_task_that_draws_its_own_is_refused(folder, capsys):
    assert fit_once.command("run", *own(folder), *FEW, "task=folds") == 2
    assert "dataset.test_path names the test rows, but task=folds draws its own" in capsys.readouterr().err


def test_a_finished_run_predicts_new_rows_as_it_predicted_its_test_rows(ran, folder, tmp_path):
    assert (
        fit_once.command("predict", str(ran.directory), str(folder / "test.csv"), "--output", str(tmp_path / "o.csv"))
        == 0
    )
    found = pd.read_csv(tmp_path / "o.csv")
    np.testing.assert_allclose(found["mean"], ran.points["mean"], rtol=1e-9)
    np.testing.assert_allclose(found["standard_deviation"] ** 2, ran.points["variance"], rtol=1e-8)


def test_a_record_of_an_earlier_version_is_refused_with_advice(ran, tmp_path):
    import shutil

    shutil.copytree(ran.directory, tmp_path / "old")
    forge(tmp_path / "old" / "record.json", lambda record: record.pop("model"))
    with pytest.raises(ValueError, match=r"recorded by an earlier dgpbench.*rerun it"):
        load(tmp_path / "old")
