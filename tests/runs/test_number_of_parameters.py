"""The number of trainable parameters, from the record to the commands that print it."""

import fit_once

from dgpbench import load_results
from dgpbench.runs import compact_records
from dgpbench.runs.record import read_record

M, D = 16, 1  # of the smoke budget and of the step data
KERNEL, NOISE = D + 1, 1


def test_a_run_records_its_number_of_parameters_and_commands_print_it(tmp_path, capsys):
    """Of a sparse GP: Z, the kernel, the noise, m and C."""
    number = M * D + KERNEL + NOISE + M + M * M
    where = f"results_dir={tmp_path}"
    assert fit_once.command("run", "method=sgp", "dataset=step", "budget=smoke", "plot=false", where) == 0
    assert f"{number} parameters" in capsys.readouterr().out
    (path,) = tmp_path.rglob("record.json")
    assert read_record(path)["num_parameters"] == compact_records.of_run(path.parent)["num_parameters"] == number
    assert load_results(tmp_path)["num_parameters"].tolist() == [number]
    table = ("table", "lindinger2020_table1", "dataset=boston", "budget=smoke", "--metric", "num_parameters", where)
    assert fit_once.command("run", "method=sgp", "dataset=boston", "budget=smoke", "plot=false", where) == 0
    assert fit_once.command(*table) == 0
    assert "1/10" in capsys.readouterr().out
    assert fit_once.command(*table, "split=0") == 0
    of_boston = M * 13 + 13 + 1 + NOISE + M + M * M
    assert f" {of_boston} |" in capsys.readouterr().out
