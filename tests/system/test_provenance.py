"""Provenance: the code, the versions and the machine, without names of machines or users."""

import json
import platform
import subprocess
from pathlib import Path

import numpy as np

from dgpbench.system import provenance


def test_the_git_state_is_of_the_packages_own_repository_only(tmp_path):
    git = lambda *arguments: subprocess.run(["git", "-C", tmp_path, *arguments], check=True, capture_output=True)
    git("init")
    (tmp_path / "dgpbench").mkdir()
    (tmp_path / "dgpbench" / "a.py").write_text("1")
    git("add", ".")
    git("-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-m", "a")
    clean = provenance.git_state(tmp_path)
    assert clean is not None
    assert len(clean["commit"]) == 40
    assert clean["dirty"] is False
    provenance.git_state.cache_clear()
    (tmp_path / "notes.txt").write_text("not code")
    assert provenance.git_state(tmp_path) == clean
    provenance.git_state.cache_clear()
    (tmp_path / "dgpbench" / "b.py").write_text("2")
    assert provenance.git_state(tmp_path) == clean | {"dirty": True}
    assert provenance.git_state(tmp_path / "dgpbench") is None


def test_the_commit_in_a_record_is_that_of_this_checkout():
    checkout = Path(__file__).resolve().parents[2]
    assert checkout == provenance.SOURCE
    if (checkout / ".git").exists():
        head = subprocess.run(["git", "-C", checkout, "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
        assert provenance.git_state()["commit"] == head.stdout.strip()


def test_versions_and_host_name_no_machine_and_no_user():
    stated = json.dumps([provenance.versions(), provenance.host(threads=1)], allow_nan=False)
    assert provenance.versions()["numpy"] == np.__version__
    assert provenance.host(threads=2)["threads"] == 2
    assert str(Path.home()) not in stated
    assert f'"{platform.node()}"' not in stated


def test_a_package_that_is_not_installed_has_no_version(monkeypatch):
    monkeypatch.setattr(provenance, "PACKAGES", ("no-such-package-at-all",))
    assert provenance.versions()["no-such-package-at-all"] is None


def test_generations_of_a_processor_with_one_name_differ(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.platform", "linux")
    named = {}
    for number in (1, 17):
        listing = tmp_path / f"cpuinfo-{number}"
        lines = ("cpu family\t: 25", f"model\t\t: {number}", "model name\t: AMD EPYC", "flags\t\t: fpu vme", "")
        listing.write_text("\n".join(("processor\t: 0", *lines, "processor\t: 1", *lines)))
        named[number] = provenance.cpu_model(listing)
    assert named == {1: "AMD EPYC (family 25, model 1)", 17: "AMD EPYC (family 25, model 17)"}
    listing.write_text("processor\t: 0\nmodel name\t: ARMv7 Processor rev 4 (v7l)\n")
    assert provenance.cpu_model(listing) == "ARMv7 Processor rev 4 (v7l)"
