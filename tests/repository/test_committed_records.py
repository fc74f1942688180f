"""The records in results/records are those of the settings and the code beside them."""

from dataclasses import replace
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from dgpbench.methods.plugins import GROUP, load_entry_point
from dgpbench.runs import store
from dgpbench.runs.identity import Identity
from dgpbench.runs.resolve import Run, resolve_overrides

ROOT = Path(__file__).parents[2]


@pytest.mark.full
def test_every_committed_record_is_of_the_settings_that_its_name_has_now():
    """An edit in conf/ that changes a setting of recorded runs has to make them again."""
    for each in entry_points(group=GROUP):
        load_entry_point(each.name)
    runs: dict[str, Run] = {}
    stale = []
    for found in store.find(ROOT / "results"):
        assert not isinstance(found, ValueError), found
        if found.compact is None:  # a run of whoever works here
            continue
        identity = Identity(**found.record["identity"])
        name = " ".join(replace(identity, split=0, seed=0).arguments())
        if name not in runs:
            runs[name] = resolve_overrides(replace(identity, split=0, seed=0).arguments())
        now = replace(runs[name], split=identity.split, seed=identity.seed)
        if now.config_hash != found.record["config_hash"]:
            stale.append(found.source)
    assert not stale, f"{len(stale)} records, such as {stale[:3]}"
