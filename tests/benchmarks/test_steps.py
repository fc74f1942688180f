"""Table of ``bench steps``: from processes that take turns to medians and floors."""

import io
import json

import pandas as pd
import pytest

from dgpbench.benchmarks import floors, peers, timing
from dgpbench.benchmarks.worker import WARM_UP, Finished, Turns
from dgpbench.cli import main
from dgpbench.errors import UserError

TINY = ["dataset=bimodal", "M=8", "L=2", "tau=1", "B=16", "R=2", "repeats=2"]


@pytest.mark.full
def test_real_processes_step_in_turn_and_the_table_has_a_floor(tmp_path):
    file = tmp_path / "steps.csv"
    assert main(["bench", "steps", "methods=mf,sghmc", *TINY, "--output", str(file)]) == 0
    frame = pd.read_csv(file)
    assert list(frame["method"]) == ["mf", "sghmc"]
    assert (frame["repeats"] == 2).all()
    assert (frame[["ms_per_step", "q25", "q75", "floor_ms", "gflop", "gemm_gflops", "cpu_ms_per_step"]] > 0).all(
        axis=None
    )
    assert list(frame["floor_ratio"]) == pytest.approx(list(frame["ms_per_step"] / frame["floor_ms"]), rel=1e-4)
    assert (frame["data"] == "bimodal").all()


@pytest.mark.full
def test_a_cell_that_fails_to_time_reports_why_and_others_are_kept():
    plan = timing.parse(["methods=mf", "M=8,999999", *TINY[:1], *TINY[2:-1], "repeats=1"])
    frame = timing.measure(plan)
    assert frame["ms_per_step"].notna().tolist() == [True, False]
    assert "999999" in frame["problem"][1]


def test_a_process_that_ends_without_a_time_is_quoted(tmp_path, monkeypatch):
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho no module here >&2\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setattr(timing.sys, "executable", str(broken))
    with pytest.raises(UserError, match=r"exit code 3\): no module here$"):
        timing.measure(timing.parse(["methods=mf", *TINY]))


def test_the_first_blocks_are_not_measured():
    responses = io.StringIO()
    beat = Turns(io.StringIO("go\n"), responses, lambda: 40.0, {"gflop": 1.0})
    for block in range(1, WARM_UP + 1):
        beat(10 * block)
    with pytest.raises(Finished):
        beat(10 * (WARM_UP + 1))
    message = [json.loads(line) for line in responses.getvalue().splitlines()]
    assert message[0] == {"gflop": 1.0}
    assert [sorted(line) for line in message[1:]] == [["cpu_ms", "gemm_gflops", "ms"]]


def test_tracing_is_subtracted_from_a_blocks_time(monkeypatch):
    now = iter([0.0, 0.0, 0.0, 100.0, 107.0])
    monkeypatch.setattr("dgpbench.benchmarks.worker.time.perf_counter", lambda: next(now, 107.0))
    responses = io.StringIO()
    beat = Turns(io.StringIO("go\n"), responses, lambda: 40.0, {})
    beat(10)
    beat(20)
    with pytest.raises(Finished):
        beat(30, excluded=5.0)
    assert json.loads(responses.getvalue().splitlines()[-1])["ms"] == pytest.approx(
        200.0
    )  # (107 - 100 - 5) s over 10 steps


def test_slow_bursts_do_not_lower_the_rate_of_products(monkeypatch):
    took = iter([0.06, 0.06, 0.04, 0.06, 0.06])
    clock = 0.0

    def burst() -> None:
        nonlocal clock
        clock += next(took)

    monkeypatch.setattr(floors.time, "process_time", lambda: clock)
    flops = 2 * 128 * 128 * 2560 * floors.PRODUCTS
    assert floors.measured_rate(burst, one_core=True) == pytest.approx(flops / 0.04 / 1e9)


def test_without_peers_the_command_names_their_extra(monkeypatch, capsys):
    monkeypatch.setattr(peers, "find_spec", lambda name: None)
    assert main(["bench", "peers"]) == 2
    assert "'dgpbench[peers]'" in capsys.readouterr().err


@pytest.mark.full
def test_an_empty_set_of_cells_is_refused():
    plan = timing.parse(["methods=mf", "M=999999", *TINY[:1], *TINY[2:]])
    with pytest.raises(UserError, match="999999"):
        timing.measure(plan)
