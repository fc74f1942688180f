"""``show --tensorboard``: the trace of a run as TensorBoard event files."""

import fit_once
import numpy as np
import pandas as pd
import pytest

QUICK = (
    "method.num_layers=2",
    "dataset=diabetes",
    "budget=smoke",
    "training.max_iterations=310",
    "method.num_inducing=4",
)


@pytest.fixture(scope="module")
def mf(tmp_path_factory):
    """A run that holds rows out; its trace has validation scores, and is changed to lack one."""
    run = fit_once.run(tmp_path_factory.mktemp("mf"), "method=mf", *QUICK)
    trace = run.trace
    trace.loc[1, "validation_tll"] = np.nan
    trace.to_parquet(run.directory / "trace.parquet")
    return run


def events(folder) -> tuple[str, pd.DataFrame]:
    """Read the only event file below a folder: its directory there, and a column for each tag."""
    import tensorflow as tf

    (path,) = folder.rglob("events.out.tfevents.*")
    values: dict[str, dict[int, float]] = {}
    for event in tf.compat.v1.train.summary_iterator(str(path)):
        for value in event.summary.value:
            assert value.metadata.plugin_data.plugin_name == "scalars"
            number = float(tf.make_ndarray(value.tensor))
            assert np.isfinite(number)
            values.setdefault(value.tag, {})[event.step] = number
    return path.parent.relative_to(folder).as_posix(), pd.DataFrame(values)


def test_the_events_are_the_trace(mf, tmp_path, capsys):
    for _ in range(2):  # the second call replaces the events of the first
        assert fit_once.command("show", str(mf.directory), "--tensorboard", str(tmp_path)) == 0
    name, values = events(tmp_path)
    assert str(mf.directory).endswith(f"/runs/{name}")
    assert f"events: {tmp_path / name}" in capsys.readouterr().out
    trace = mf.trace.set_index("iteration").rename(columns={"elbo": "ELBO"})
    assert set(values) == set(trace.columns) == {"ELBO", "seconds", "validation_tll"}
    for tag in values:
        expected = trace[tag].dropna()
        assert values[tag].dropna().index.tolist() == expected.index.tolist()
        np.testing.assert_allclose(values[tag].dropna(), expected, rtol=1e-6)


def test_a_run_without_a_trace_is_refused(tmp_path, capsys):
    directory = fit_once.run(tmp_path / "results", "method=bayesian_ridge", "dataset=diabetes").directory
    assert fit_once.command("show", str(directory), "--tensorboard", str(tmp_path / "logs")) == 2
    assert "has no trace" in capsys.readouterr().err
    assert not (tmp_path / "logs").exists()


def test_a_file_in_place_of_the_folder_of_events_is_refused(mf, tmp_path, capsys):
    (tmp_path / "logs").write_text("")
    assert fit_once.command("show", str(mf.directory), "--tensorboard", str(tmp_path / "logs")) == 2
    assert "choose another folder with --tensorboard" in capsys.readouterr().err
