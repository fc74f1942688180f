"""Completion of the command line in a shell."""

import os
import pty
import shutil
import subprocess

import pytest

from dgpbench.cli import COMMANDS, main
from dgpbench.commands.completion import INSTALL
from dgpbench.config import groups


def script(shell: str, capsys) -> str:
    """Return the script that the command prints."""
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


def completed(script: str, *words: str) -> set[str]:
    """Return what bash offers for the last word."""
    line = " ".join(f"'{word}'" for word in words)
    code = f"{script}\nCOMP_WORDS=({line}) COMP_CWORD={len(words) - 1}\n"
    code += f"_shtab_dgpbench dgpbench '{words[-1]}' '{words[-2]}'\nprintf '%s\\n' \"${{COMPREPLY[@]}}\""
    ended = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=True)
    return {word.strip() for word in ended.stdout.splitlines()}


def test_bash_offers_commands_options_and_names(capsys):
    text = script("bash", capsys)
    assert completed(text, "dgpbench", "") >= set(COMMANDS)
    assert completed(text, "dgpbench", "re") == {"reproduce", "results", "report"}
    assert completed(text, "dgpbench", "results", "re") == {"redo"}
    assert {"--plot", "--json", "--tensorboard"} <= completed(text, "dgpbench", "show", "--")
    assert completed(text, "dgpbench", "reproduce", "--engine", "") == {"local", "slurm"}
    assert completed(text, "dgpbench", "list", "m") == {"methods"}
    assert completed(text, "dgpbench", "plan", "lindinger2020_table1") >= {"lindinger2020_table1"}
    assert completed(text, "dgpbench", "cite", "kin8") == {"kin8nm"}
    assert completed(text, "dgpbench", "run", "method=st") == {"method=star", "method=stripes"}


def test_bash_offers_files_where_a_path_is_expected(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "new.csv").write_text("a\n1\n")
    assert completed(script("bash", capsys), "dgpbench", "predict", "model", "n") == {"new.csv"}


def test_a_choice_is_completed_behind_its_equals_sign_on_a_terminal(capsys, tmp_path):
    (tmp_path / "completion").write_text(script("bash", capsys))
    ours, theirs = pty.openpty()
    words = ["bash", "--norc", "--noprofile", "-i"]
    options = {"stdin": theirs, "stdout": subprocess.PIPE, "stderr": theirs, "start_new_session": True, "text": True}
    with subprocess.Popen(words, cwd=tmp_path, **options) as shell:
        os.write(ours, b"source ./completion; dgpbench() { echo got: $*; }\ndgpbench run method=sta\t\nexit\n")
        out, _ = shell.communicate(timeout=60)
    os.close(theirs)
    os.close(ours)
    assert "got: run method=star" in out


@pytest.mark.parametrize("shell", INSTALL)
def test_the_script_of_a_shell_has_every_command_and_name(shell, capsys):
    text = script(shell, capsys)
    assert [name for name in (*COMMANDS, *groups.names("experiment"), "method=star") if name not in text] == []
    if program := shutil.which(shell):
        subprocess.run([program, "-n"], input=text, text=True, check=True)
