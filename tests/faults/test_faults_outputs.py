"""Pictures, tables and the report: an interrupted write leaves the old file whole."""

import pytest
from fault_tools import TINY

from dgpbench.runs import store

COMMANDS = {
    "show --plot": ("figure.png", "main(['show', 'results', '--plot', '--output', 'figure.png'])"),
    "report": ("report.html", "main(['report', 'results', '--output', 'report.html'])"),
    "table": ("table.md", "main(['table', 'lindinger2020_table1', 'budget=smoke', '--output', 'table.md'])"),
    "figure": ("figure.svg", "save(Figure(), Path('figure.svg')) and 0"),
}
NAMES = """
from pathlib import Path
from matplotlib.figure import Figure
from dgpbench.cli import main
from dgpbench.report.figures.page import save
"""
# Whatever is written is there by half when the process, or the room on the disk, comes to its end.
CUT_SHORT = """
import errno, os, signal
def stop(file):
    os.truncate(file, os.path.getsize(file) // 2)
    if os.environ["HOW"] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
def cut_short(write):
    def writing(self, *arguments, **more):
        write(self, *arguments, **more)
        file = self if isinstance(self, Path) else arguments[0]
        if isinstance(file, Path):  # and not a buffer in memory, as for the figures of the report
            stop(file)
    return writing
Path.write_text, Figure.savefig = cut_short(Path.write_text), cut_short(Figure.savefig)
"""


@pytest.fixture(scope="module")
def folder(fork_server, tmp_path_factory):
    """A folder that holds one finished run in results/."""
    path = tmp_path_factory.mktemp("outputs")
    fork_server.run(["run", *TINY, f"results_dir={path / 'results'}"], path)
    return path


@pytest.mark.parametrize(("how", "ended"), [("killed", {-9}), ("full", {2, 70})])
@pytest.mark.parametrize("command", COMMANDS)
def test_an_output_cut_short_leaves_the_old_file_whole(command, how, ended, fork_server, folder):
    name, call = COMMANDS[command]
    fork_server.run([], folder, code=f"{NAMES}code = {call}")
    old = (folder / name).read_bytes()
    job = fork_server.start([], folder, code=f"{NAMES}{CUT_SHORT}code = {call}", HOW=how)
    assert job.wait() in ended, job.text
    assert (folder / name).read_bytes() == old
    left = list(folder.glob(".partial-*"))
    assert bool(left) == (how == "killed")
    for path in left:
        path.unlink()


def test_a_picture_cut_short_leaves_no_file(fork_server, tmp_path):
    """The run itself is done; its picture is missing, and not half there."""
    plotted = [text for text in TINY if text != "plot=false"]
    job = fork_server.run(["run", *plotted], tmp_path, code=f"{NAMES}{CUT_SHORT}code = main(arguments)", HOW="full")
    assert "no picture" in job.text
    assert not list(tmp_path.rglob("figure.png"))
    assert len(list(tmp_path.rglob(store.RECORD))) == 1
