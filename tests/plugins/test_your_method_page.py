"""docs/your_method.md is carried out, word for word but for the budget."""

import re
import shlex
from pathlib import Path

import door

from dgpbench.report.collect import collect

PAGE = Path(__file__).parents[2] / "docs" / "your_method.md"


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
        assert door.command(*words, *(door.QUIET if words[0] == "run" else ())) == 0, capsys.readouterr().err
    done = collect("results")
    assert len(done) == 6
    assert set(done["status"]) == {"done"}
    plain = done[done["overrides"].map(len) == 0]
    assert plain["tll"].item() > -2.7  # on boston, whose exact GP has -2.4
    assert door.command("run", "method=my_ridge", "--plugin", "my_ridge.py", *door.QUIET) == 0
