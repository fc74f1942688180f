"""Input from outside is data: no markup, no code, no path outside the folder, no huge archive."""

import zipfile

import numpy as np
import pytest
from fault_tools import TINY, the_record

from dgpbench.cli import main
from dgpbench.data.download import opened
from dgpbench.runs import store

SCRIPT = "<script>alert(1)</script>"
STEERING = "\x1b]0;title\x07\x1b[31m\x9b2J\b\u202e"  # a title, a colour, a cleared screen, another direction


def test_a_script_in_the_header_of_a_table_reaches_the_report_as_text(tmp_path):
    """As the name of the target, of a feature, of a constant column that the record names, and of the file."""
    rows = np.random.default_rng(0).normal(size=(40, 4))
    rows[:, 1] = 3.0
    names = [f"{SCRIPT}a", f"{SCRIPT}b", f"{SCRIPT}c", f"{SCRIPT}y"]
    path = tmp_path / "<script>alert(1)<!--.csv"
    np.savetxt(path, rows, delimiter=";", header=";".join(names), comments="")
    settings = [text for text in TINY if not text.startswith("dataset=")]
    own = [
        "dataset=csv",
        f'dataset.path="{path}"',
        f'dataset.target="{names[3]}"',
        f"results_dir={tmp_path / 'results'}",
    ]
    assert main(["run", *settings, *own]) == 0
    assert the_record(tmp_path)["data"]["dropped"] == [names[1]]
    assert main(["report", str(tmp_path / "results")]) == 0
    text = (tmp_path / "results" / "report.html").read_text()
    assert "<script>alert" not in text


def test_a_script_in_any_text_of_a_record_reaches_the_report_as_text(tmp_path):
    from one_record import directory_of, record_of

    for split, status in enumerate(("failed", "done")):
        name = SCRIPT.replace("/", "")
        changed = {"method": name, "dataset": name, "split": split}
        record = record_of(status=status, reason=SCRIPT, traceback=SCRIPT)
        texts = {
            "data": record["data"] | {"name": SCRIPT, "dropped": [SCRIPT]},
            "notes": [SCRIPT],
            "host": {"cpu": SCRIPT},
        }
        record |= texts | {"identity": record["identity"] | changed, "versions": {SCRIPT: SCRIPT}}
        store.write_run(directory_of(tmp_path, **changed), record)
    assert main(["report", str(tmp_path)]) == 0
    text = (tmp_path / "report.html").read_text()
    assert "\\u003cscript\\u003e" in text
    assert "<script>alert" not in text


@pytest.mark.parametrize("words", [["show", "{run}"], ["table", "lindinger2020_table1", "results_dir={results}"]])
def test_control_characters_of_a_record_reach_no_terminal(words, tmp_path, capsys):
    from one_record import directory_of, record_of

    results = tmp_path / "results"
    texts = {"reason": f"{STEERING} ended", "notes": [STEERING], "versions": {STEERING: STEERING}}
    texts["config"] = {"method": {"name": STEERING}, "training": {}, "prediction": {}}
    texts["data"] = {"name": "boston", "n": 506, "d": 13, "n_train": 455, "n_test": 51} | dict.fromkeys(
        ("digest_xy", "digest_xy_ordered", "verified"), STEERING
    )
    store.write_run(directory_of(results), record_of(status="failed", scores={}, traceback=STEERING, **texts))
    main([text.format(run=directory_of(results), results=results) for text in words])
    captured = capsys.readouterr()
    assert not set("\x1b\x07\x9b\b\u202e") & set(captured.out + captured.err)
    assert words[0] != "show" or r"\x1b]0;title\x07" in captured.out


@pytest.mark.parametrize("drop", ["", "[nothing]"], ids=["taken", "refused"])
def test_control_characters_of_a_table_reach_no_terminal(drop, tmp_path, capsys):
    path = tmp_path / f"{STEERING}.csv"
    np.savetxt(path, np.random.default_rng(0).normal(size=(40, 2)), delimiter=",", header=f"{STEERING}a,y", comments="")
    own = ["dataset=csv", f'dataset.path="{path}"', "dataset.target=y", *([f"dataset.drop={drop}"] if drop else [])]
    assert main(["validate", "method=gpr", *own]) == (2 if drop else 0)
    captured = capsys.readouterr()
    assert not set("\x1b\x07\x9b\b\u202e") & set(captured.out + captured.err)
    assert r"\x1b" in captured.out + captured.err


@pytest.mark.parametrize("name", [store.POSTERIOR, store.PARAMETERS])
def test_a_pickle_in_place_of_arrays_is_not_loaded(name, tmp_path):
    class Bomb:
        def __reduce__(self):
            return (tmp_path.joinpath("exploded").mkdir, ())

    np.savez(tmp_path / name, a=np.array([Bomb()], dtype=object))
    with pytest.raises(ValueError, match="allow_pickle"):
        store.read_arrays(tmp_path / name)
    assert not (tmp_path / "exploded").exists()


def test_a_pickle_in_a_checkpoint_is_not_loaded(tmp_path):
    import tensorflow as tf

    from dgpbench.training.checkpoints import Checkpoints

    class Bomb:
        def __reduce__(self):
            return (tmp_path.joinpath("exploded").mkdir, ())

    np.savez(tmp_path / "step-000000010.npz", about=np.array([Bomb()], dtype=object), v0=np.array([1.0]))
    assert Checkpoints(tmp_path, "key").restore([tf.Variable([1.0])]) is None
    assert not (tmp_path / "exploded").exists()


def test_yaml_from_a_user_cannot_name_python_objects(tiny, tmp_path, capsys):
    (tmp_path / "blocks.yaml").write_text("!!python/object/apply:os.mkdir [exploded]\n")
    assert tiny("method=custom", f'method.blocks_file="{tmp_path / "blocks.yaml"}"') == 2
    assert "blocks_file" in capsys.readouterr().err
    assert not (tmp_path / "exploded").exists()


def test_an_archive_member_that_climbs_out_writes_nothing(tmp_path):
    with zipfile.ZipFile(tmp_path / "t.zip", "w") as archive:
        archive.writestr("../../evil.csv", "1,2")
    with opened(tmp_path / "t.zip", "../../evil.csv") as file:
        assert file.read() == b"1,2"
    assert [path.name for path in tmp_path.iterdir()] == ["t.zip"]


def test_an_archive_that_swells_is_refused_before_it_is_read(tmp_path):
    with zipfile.ZipFile(tmp_path / "t.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("t.csv", b"0" * 50_000_000)
    with pytest.raises(zipfile.BadZipFile, match="claims"), opened(tmp_path / "t.zip", "t.csv"):
        pass


def test_a_link_in_place_of_a_record_leads_nowhere_else(tmp_path):
    """A symbolic link in the store is read as its target, and verified against its place like any other file."""
    from one_record import directory_of, record_of

    directory, other = directory_of(tmp_path), directory_of(tmp_path, split=1)
    store.write_run(directory, record_of())
    other.mkdir(parents=True)
    (other / store.RECORD).symlink_to(directory / store.RECORD)
    assert any("another run" in problem for problem in store.verify_run(other))
