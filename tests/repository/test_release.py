"""What a release consists of: one version everywhere, and a wheel with every file that the package reads."""

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest
import yaml

from dgpbench import __version__

ROOT = Path(__file__).parents[2]


def test_citation_and_changelog_have_the_version_of_the_package():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == citation["preferred-citation"]["version"] == __version__
    dated = re.findall(r"^## (\d\S*) \((\d{4}-\d\d-\d\d)\)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert dated[0] == (__version__, citation["date-released"])


def files_below(folder: str, prefix: str) -> set[str]:
    """Return the files that a wheel should have below a prefix."""
    paths = (path for path in (ROOT / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {f"{prefix}/{path.relative_to(ROOT / folder).as_posix()}" for path in paths}


@pytest.mark.full
def test_a_wheel_built_from_the_sdist_has_every_file_and_no_other(tmp_path):
    words = [sys.executable, "-m", "build", "--outdir", str(tmp_path), str(ROOT)]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=280)
    if ended.returncode and "No matching distribution found for hatchling" in ended.stdout + ended.stderr:
        if os.environ.get("CI") == "true":
            pytest.fail("hatchling cannot be installed")
        pytest.skip("needs a package index, for hatchling")
    assert ended.returncode == 0, ended.stdout[-2000:]
    (wheel,) = tmp_path.glob(f"dgpbench-{__version__}-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.startswith(f"dgpbench-{__version__}.dist-info/")}
        about = message_from_bytes(archive.read(f"dgpbench-{__version__}.dist-info/METADATA"))
    expected = files_below("dgpbench", "dgpbench")
    expected |= files_below("conf", "dgpbench/conf") | files_below("data/published", "dgpbench/data/published")
    assert names == expected
    assert {"dgpbench/py.typed", "dgpbench/conf/run.yaml"} <= names
    assert "Typing :: Typed" in about.get_all("Classifier")
    readme = about.get_payload()
    assert readme.startswith("# dgpbench\n")
    links = re.findall(r"(!?)\[[^\]]*\]\(([^)]*)\)", readme)
    assert {bool(picture) for picture, _ in links} == {True, False}
    for picture, target in links:
        host = "raw.githubusercontent.com" if picture else "github.com"
        assert target.startswith(f"https://{host}/dgpbench/dgpbench/"), target
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    assert {"constraints.txt", "constraints-3.13.txt", "CITATION.cff", "tests/repository/test_release.py"} <= inside
    assert not {name for name in inside if name.startswith((".github", "results", "data/raw"))}
