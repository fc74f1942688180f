"""Items and the overrides that narrow them."""

import pytest

from dgpbench.config import groups
from dgpbench.errors import UserError
from dgpbench.experiments.items import load
from dgpbench.methods import plugins
from dgpbench.report import published
from dgpbench.report.cells import wanted
from dgpbench.report.tables import RULES

ITEMS = groups.names("experiment")
TABLE1 = "lindinger2020_table1"


def columns(*given: str, item: str = TABLE1) -> set[tuple[str, str, int]]:
    rows = wanted(load(item, given))
    return set(zip(rows["dataset"], rows["series"], rows["num_layers"], strict=True))


@pytest.mark.parametrize("name", ITEMS)
def test_every_item_loads_and_starts_with_its_command(name):
    item = load(name)
    head = (groups.folder() / "experiment" / f"{name}.yaml").read_text()
    assert head.startswith("# ")
    assert f"#   dgpbench reproduce {name}\n" in head
    assert item.title
    assert item.kind in ("table", "figure")
    assert bool(item.figure) == (item.kind == "figure")
    assert item.blocks or item.kind == "figure"
    assert all(block.best in ("", *RULES) for block in item.blocks)


@pytest.mark.parametrize("name", ITEMS)
def test_every_name_in_an_item_exists(name):
    groups.find_by(plugins.__name__)
    for sweep in load(name).sweeps:
        for group in groups.GROUPS:
            assert all(groups.exists(group, each) for each in sweep.values.get(group, ()))


def test_every_published_table_is_an_item():
    assert {published.item_name(each) for each in published.read_published()} <= set(ITEMS)


def test_table_1_is_not_a_single_product():
    found = {(method, layers) for _, method, layers in columns()}
    assert found == {("sgp", 1), *(("sghmc", L) for L in (1, 2, 3)), *((m, L) for m in ("mf", "star") for L in (2, 3))}
    assert len(columns()) == 64


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["dataset=boston", "method=star"], {("boston", "star", 2), ("boston", "star", 3)}),
        (["dataset=boston", "method=glob(s*)", "method.num_layers=3"], {("boston", "sghmc", 3), ("boston", "star", 3)}),
        (["dataset=glob(*,exclude=[k*,p*,n*,w*,b*,c*])", "method=sgp"], {("energy", "sgp", 1)}),
        (["method.num_layers=range(1,2)", "dataset=naval"], {("naval", "sgp", 1), ("naval", "sghmc", 1)}),
        (["dataset=choice(boston,energy)", "method=sgp"], {("boston", "sgp", 1), ("energy", "sgp", 1)}),
    ],
)
def test_narrowing_in_hydras_grammar(given, expected):
    assert columns(*given) == expected


def test_splits_are_narrowed_and_counted():
    assert set(wanted(load(TABLE1, ["split=range(2)"]))["wanted"]) == {2}
    assert set(wanted(load(TABLE1))["wanted"]) == {10}


def test_budget_is_paper_unless_given():
    assert load(TABLE1).budget == "paper"
    assert load(TABLE1, ["budget=smoke"]).budget == "smoke"


def test_an_external_setting_narrows_nothing():
    item = load(TABLE1, ["results_dir=elsewhere", "num_threads=2"])
    assert item.results_dir == "elsewhere"
    assert item.narrowed == ()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("dataset=yacht", "leaves nothing of lindinger2020_table1; its dataset is one of boston"),
        ("dataset=bosten", "unknown dataset 'bosten'"),
        ("split=10", "leaves nothing"),
        ("budget=smoke,paper", "takes one budget at a time"),
        ("training.learning_rate=0.1,0.2", "takes one training.learning_rate at a time"),
        ("methd=star", "did you mean method"),
        ("boston", "not an override"),
        ("+split=1", "settings can only be changed"),
        ("split=range(0,10,0)", "is not a valid list of values"),
        ("split=interval(0,1)", "is not a valid list of values"),
        ("split=range(5,2)", "has no values"),
    ],
)
def test_a_mistake_in_an_item_is_refused(given, message):
    with pytest.raises(UserError) as refusal:
        load(TABLE1, [given])
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_an_unknown_item_is_refused():
    with pytest.raises(UserError, match="did you mean lindinger2020_table1"):
        load("lindinger2020_table11")
