"""Methods of an open item: its own, loaded plug-ins, and those named on the command line."""

import json

import fit_once
import pytest

RIDGE = """
from dgpbench.plugins import Gaussian, Method

class Mean:
    def predict(self, X, seed):
        return Gaussian(0 * X[:, 0], 1 + 0 * X[:, 0])

METHOD = Method("NAME", lambda train, settings, seeds, log: Mean())
"""
NARROW = ("dataset=boston,yacht", "split=0,1", "method.num_layers=1,2,3")


@pytest.fixture
def plugin(tmp_path):
    path = tmp_path / "guest.py"
    path.write_text(RIDGE.replace("NAME", f"guest_of_{tmp_path.name.replace('-', '_')}"))
    return f"guest_of_{tmp_path.name.replace('-', '_')}", f"--plugin={path}"


def planned(capsys, item: str, *words: str) -> set[tuple[str, str]]:
    """(method, layers) of the runs that an item plans."""
    capsys.readouterr()
    assert fit_once.command("plan", item, *words, "--json") == 0, capsys.readouterr().err
    runs = json.loads(capsys.readouterr().out)["runs"]
    told = [dict(each.split("=", 1) for each in run["overrides"]) for run in runs]
    return {(each["method"], each["method.num_layers"]) for each in told}


@pytest.mark.full
def test_a_plug_in_joins_an_open_item_on_all_its_data_and_splits(plugin, capsys):
    name, flag = plugin
    assert (name, "1") in planned(capsys, "dgpbench_uci", flag)
    assert ("star", "3") in planned(capsys, "dgpbench_uci", flag)
    capsys.readouterr()
    assert fit_once.command("plan", "dgpbench_uci_extrapolation", f"method={name}", flag, "--json") == 0
    runs = json.loads(capsys.readouterr().out)["runs"]
    told = [dict(each.split("=", 1) for each in run["overrides"]) for run in runs]
    assert {each["method"] for each in told} == {name}
    assert {each["budget"] for each in told} == {"laptop"}
    assert {each["task"] for each in told} == {"extrapolation"}
    assert len({(each["dataset"], each["split"]) for each in told}) == len(told) == 9 * 10


@pytest.mark.full
def test_a_method_of_ours_joins_an_open_item_where_it_is_named(capsys):
    assert planned(capsys, "dgpbench_uci", "method=fc,star", *NARROW) == {
        ("fc", "2"),
        ("fc", "3"),
        ("star", "2"),
        ("star", "3"),
    }
    assert not {name for name, _ in planned(capsys, "dgpbench_uci", *NARROW)} & {"fc", "chain"}


@pytest.mark.full
def test_a_papers_table_accepts_no_other_method(plugin, capsys):
    name, flag = plugin
    assert name not in {method for method, _ in planned(capsys, "lindinger2020_table1", flag)}
    assert fit_once.command("plan", "lindinger2020_table1", f"method={name}", flag) == 2
    assert "leaves nothing of lindinger2020_table1" in capsys.readouterr().err
    assert fit_once.command("plan", "dgpbench_uci", "method=there_is_none") == 2
    assert "unknown method 'there_is_none'" in capsys.readouterr().err


@pytest.mark.full
def test_its_column_is_filled_and_the_others_are_missing(plugin, tmp_path, capsys):
    name, flag = plugin
    narrow = ("dataset=boston", "split=0,1", f"results_dir={tmp_path}/results")
    assert fit_once.command("reproduce", "dgpbench_uci", f"method={name}", flag, *narrow, *fit_once.QUIET) == 0
    capsys.readouterr()
    assert fit_once.command("table", "dgpbench_uci", flag, *narrow, "--format", "csv") == 0
    rows = [line.split(",") for line in capsys.readouterr().out.splitlines() if not line.startswith("#")]
    head = rows[0]
    counts = {
        (row[head.index("metric")], row[head.index("method")], row[head.index("num_layers")]): row[head.index("count")]
        for row in rows[1:]
        if len(row) == len(head)
    }
    assert counts["tll", name, "1"] == "2"
    assert counts["crps", name, "1"] == "2"
    assert counts["tll", "star", "3"] == "0"
