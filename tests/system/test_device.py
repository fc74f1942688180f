"""``device=cpu|gpu|auto``, on a machine without a GPU and with a pretended one."""

import json
import subprocess
import sys

import pytest
from one_record import forge

from dgpbench.cli import main
from dgpbench.runs import compact_records
from dgpbench.system import tf_session

RUN = ["run", "method=sgp", "dataset=boston", "budget=smoke", "training.max_iterations=10", "plot=false"]
CARD = "NVIDIA H200"


@pytest.fixture
def without_a_gpu():
    import tensorflow as tf

    if tf.config.list_physical_devices("GPU"):
        pytest.skip("this machine has a GPU")


def test_a_gpu_that_is_not_there_is_refused(without_a_gpu, tmp_path, capsys):
    assert main([*RUN, "device=gpu", f"results_dir={tmp_path}"]) == 2
    assert "device=gpu cannot be used" in capsys.readouterr().err
    assert not list(tmp_path.rglob("record.json"))


def test_auto_takes_what_is_there_and_the_record_names_it(without_a_gpu, tmp_path):
    assert main([*RUN, "device=auto", f"results_dir={tmp_path}"]) == 0
    [path] = tmp_path.rglob("record.json")
    assert json.loads(path.read_text())["host"]["gpu"] is None


def test_products_in_float32_keep_their_bits():
    import tensorflow as tf

    tf.config.experimental.enable_tensor_float_32_execution(True)  # TensorFlow's default
    tf_session.start(1, "float64")
    assert not tf.config.experimental.tensor_float_32_execution_enabled()


def test_a_method_without_tensorflow_refuses_a_gpu(tmp_path):
    run = [sys.executable, "-m", "dgpbench", "run", "method=bayesian_ridge", "dataset=boston", "plot=false"]
    ended = subprocess.run([*run, "device=gpu", f"results_dir={tmp_path}"], capture_output=True, text=True)
    assert ended.returncode == 2
    assert "does not use TensorFlow" in ended.stderr


def test_the_card_is_kept_in_compact_records_and_named_by_redo(without_a_gpu, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tf_session, "gpu", lambda: CARD)
    assert main([*RUN, f"results_dir={tmp_path}"]) == 0
    [path] = tmp_path.rglob("record.json")
    assert compact_records.of_run(path.parent)["host"]["gpu"] == CARD
    monkeypatch.undo()

    def move(record):
        record["scores"]["tll"] += 1e-6
        record["scores"]["nlpp"] -= 1e-6

    forge(path, move)
    capsys.readouterr()
    assert main(["results", "redo", str(path)]) == 0
    assert f"GPU {CARD}, now None" in capsys.readouterr().out


def test_doctor_lists_the_gpus(without_a_gpu, capsys):
    main(["doctor"])
    assert "GPU                      none; pip install 'dgpbench[gpu]'" in capsys.readouterr().out
