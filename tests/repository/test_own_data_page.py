"""The commands and code of docs/own_data.md and README's "Your own data" run as printed, at a smaller budget."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import fit_once
import pandas as pd
import pytest

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "docs/own_data.md")
SECTIONS = {"docs/own_data.md": (None, None), "README.md": ("### Your own data", "### Methods")}


def blocks(page: str, kind: str) -> list[str]:
    """The page's blocks of a language."""
    start, end = SECTIONS[page]
    text = (ROOT / page).read_text(encoding="utf-8")
    text = text[text.index(start) : text.index(end)] if start and end else text
    return re.findall(rf"```{kind}\n(.*?)```", text, re.DOTALL)


def commands(page: str) -> list[list[str]]:
    """The page's commands as words, at the smallest budget."""
    lines = "".join(blocks(page, "console")).replace("\\\n", " ").splitlines()
    quick = [line.replace("budget=laptop", "budget=smoke") for line in lines]
    return [shlex.split(line.removeprefix("$ "), comments=True) for line in quick]


@pytest.mark.full
@pytest.mark.parametrize("page", fit_once.first_of(PAGES))
def test_the_commands_and_the_python_of_a_page_work(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert len(commands(page)) == 4
    for program, *words in commands(page):
        if program == "python":
            command = [sys.executable, str(ROOT / words[0])]
            done = subprocess.run(command, check=True, timeout=120, capture_output=True, text=True)
            assert done.stdout == "houses.csv: 400 rows with a price; new.csv: 20 rows without\n"
        else:
            assert program == "dgpbench"
            assert fit_once.command(*words) == 0, capsys.readouterr().err
    predicted = pd.read_csv("predictions.csv")
    assert predicted.columns.tolist() == ["mean", "standard_deviation", "q0.05", "q0.5", "q0.95"]
    assert len(predicted) == 20
    (code,) = blocks(page, "python")
    names: dict = {}
    exec(code.replace('budget="laptop"', 'budget="smoke"'), names)
    assert names["bands"].shape == (20, 3)
    # The same table, settings and seed as from the shell.
    assert names["mean"] == pytest.approx(predicted["mean"].to_numpy(), rel=1e-9)


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize("script", ["example_predict.py", "example_compare.py"])
def test_the_example_scripts_work(script, tmp_path):
    code = (ROOT / "scripts" / script).read_text(encoding="utf-8").replace("laptop", "smoke")
    for text in ((ROOT / "scripts" / "example_table.py").read_text(encoding="utf-8"), code):
        (tmp_path / "script.py").write_text(text)
        path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
        environment = {"PATH": path, "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [sys.executable, "script.py"], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr[-800:]
    if script == "example_predict.py":
        assert len(pd.read_csv(tmp_path / "bands.csv")) == 20
    else:
        assert re.search(r"sghmc .* 5 ", done.stdout)
