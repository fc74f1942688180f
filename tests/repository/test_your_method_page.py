"""The commands and code of docs/your_method.md run as printed, at a smaller budget."""

import re
import shlex
from pathlib import Path

import fit_once
import pytest

from dgpbench.report.collect import collect

PAGE = Path(__file__).parents[2] / "docs" / "your_method.md"


@pytest.mark.full
def test_the_file_and_the_commands_of_the_page_work(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text(encoding="utf-8")
    ridge, wrapped = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (tmp_path / "my_method.py").write_text(ridge)
    (tmp_path / "my_ridge.py").write_text(wrapped)
    (console,) = re.findall(r"```console\n(.*?)```", text, re.DOTALL)
    for line in console.splitlines():
        _, program, *words = shlex.split(line)
        assert program == "dgpbench"
        quiet = fit_once.QUIET if words[0] in ("run", "reproduce") else ()
        assert fit_once.command(*words, *quiet) == 0, capsys.readouterr().err
    printed = capsys.readouterr().out
    done = collect("results")
    assert len(done) == 11
    assert set(done["status"]) == {"done"}
    plain = done[done["overrides"].map(len) == 0]
    assert plain["tll"].mean() > -2.7  # the exact GP has -2.4 on boston
    shown = _of_boston(printed, "tll")
    assert shown["rff_ridge"] == f"{plain['tll'].mean():.2f} ({plain['tll'].sem():.2f})"
    assert shown["star L3"] == "0/10"
    assert fit_once.command("run", "method=my_ridge", "--plugin", "my_ridge.py", *fit_once.QUIET) == 0


def _of_boston(printed: str, metric: str) -> dict[str, str]:
    """Each method's cell of the last table of a metric, which has boston alone."""
    table = printed[printed.rindex(f"### {metric}") :].split("\n\n")[1]
    lines = [[each.strip() for each in line.split("|")[1:-1]] for line in table.splitlines()]
    assert lines[0] == ["method", "boston"]
    return dict(lines[2:])
