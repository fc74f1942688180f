"""The commands and the Python code of README.md and docs/ run as printed, at a smaller budget."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import fit_once
import pandas as pd
import pytest

from dgpbench.report.collect import collect

ROOT = Path(__file__).parents[2]
OWN_TABLE, OWN_METHOD = ("docs/tutorials/own_table.md", "docs/tutorials/own_method.md")
PLACES = ("README.md", "docs/index.md", "docs/tutorials/*.md", "docs/howto/*.md")
PAGES = [
    str(path.relative_to(ROOT))
    for place in PLACES
    for path in sorted(ROOT.glob(place))
    if "```console" in path.read_text(encoding="utf-8")
]
# They install, or copy a file to be edited, or need a daemon.
NOT_OURS = ("pip", "git", "python3", "env/bin/pip", "docker", "cp")
# What a reader fills in, and what needs a network.
PLACEHOLDER = re.compile(r"/path/to|~/|OTHER|FILE|data fetch")
FROM_RECORDS = ("docs/tutorials/published_table.md", "docs/howto/records.md")
RECORDS = Path("results/records/lindinger2020_table1-laptop.jsonl")


def blocks(page: str, kind: str) -> list[str]:
    """Return the page's blocks of a language."""
    return re.findall(rf"```{kind}\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)


def commands(page: str) -> list[list[str]]:
    """Return the page's commands as words, at the smallest budget unless they read records."""
    lines = "".join(blocks(page, "console")).replace("\\\n", " ").splitlines()
    lines = [line for line in lines if line.startswith("$ ") and not PLACEHOLDER.search(line)]
    if page in FROM_RECORDS:
        lines = [re.sub("budget=laptop(?=.*results_dir=mine)", "budget=smoke", line) for line in lines]
    else:
        lines = [line.replace("laptop", "smoke") for line in lines]
    found = [shlex.split(line.removeprefix("$ "), comments=True) for line in lines]
    return [words for words in found if words[0] not in NOT_OURS]


def as_tested(words: list[str]) -> list[str]:
    """Return the command for a machine with two cores, without a cluster and without a GPU."""
    if "--engine" in words or "--workers" in words:
        return ["plan", *(word for word in words[2:] if word.startswith("lindinger") or "=" in word)]
    return [word.replace("device=gpu", "device=auto") for word in words[1:]]


def execute(words: list[str], capsys) -> None:
    """Execute a command in the current folder."""
    if words[0] == "python":
        command = [sys.executable, str(ROOT / words[1])]
        done = subprocess.run(command, check=True, timeout=120, capture_output=True, text=True)
        assert done.stdout == "houses.csv: 400 rows with a price; new.csv: 20 rows without\n"
        return
    assert words[0].removeprefix("env/bin/") == "dgpbench"
    quiet = fit_once.QUIET if words[1] in ("run", "reproduce") else ()
    assert fit_once.command(*as_tested(words), *quiet) == 0, f"{shlex.join(words)}: {capsys.readouterr().err}"


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", [page for page in PAGES if page != OWN_METHOD])
def test_the_commands_and_the_python_of_a_page_work(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    if page == "docs/howto/gpu.md":
        fit_once.without_training(monkeypatch)
    if page in FROM_RECORDS:
        RECORDS.parent.mkdir(parents=True)
        shutil.copy(ROOT / RECORDS, RECORDS)
        execute(["dgpbench", "run", "method=sgp", "dataset=boston", "budget=smoke"], capsys)  # to be exported
    for words in commands(page):
        execute(words, capsys)
    names: dict = {}
    for code in blocks(page, "python"):
        exec(code.replace('budget="laptop"', 'budget="smoke"'), names)
    if page in ("README.md", OWN_TABLE):
        predicted = pd.read_csv("predictions.csv")
        assert predicted.columns.tolist() == ["mean", "standard_deviation", "q0.05", "q0.5", "q0.95"]
        assert names["bands"].shape == (20, 3)
        # The same table, settings and seed as from the shell.
        assert names["mean"] == pytest.approx(predicted["mean"].to_numpy(), rel=1e-9)


@pytest.mark.full
def test_the_file_and_the_commands_of_a_method_of_ones_own_work(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    ridge, wrapped = blocks(OWN_METHOD, "python")
    (tmp_path / "my_method.py").write_text(ridge)
    (tmp_path / "my_ridge.py").write_text(wrapped)
    for words in commands(OWN_METHOD):
        execute(words, capsys)
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
    """Return each method's cell of the last table of a metric, which has boston alone."""
    table = printed[printed.rindex(f"### {metric}") :].split("\n\n")[1]
    lines = [[each.strip() for each in line.split("|")[1:-1]] for line in table.splitlines()]
    assert lines[0] == ["method", "boston"]
    return dict(lines[2:])


def test_every_page_with_commands_is_read():
    assert {"README.md", "docs/index.md", "docs/howto/install.md", OWN_TABLE, OWN_METHOD} <= set(PAGES)
    assert len(PAGES) >= 12


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 900


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
