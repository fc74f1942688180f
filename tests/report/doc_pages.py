"""A checkout with toy records, and the generated parts of its pages."""

import hashlib
from pathlib import Path

from toys import write_toy

from scripts.docs.__main__ import main

ROOT = Path(__file__).resolve().parents[2]
STUDIES = (
    "laptop_study",
    "laptop_picture",
    "laptop_price",
    "laptop_study_extrapolation",
    "laptop_study_others",
    "laptop_ablation",
    "paper_ablation",
)
PAGES = {
    "README.md": ("front",),
    "docs/results/index.md": ("overview",),
    "docs/results/jain2021_table1.md": ("jain2021_table1",),
    "docs/results/lindinger2020_figs5.md": ("lindinger2020_figs5",),
    "docs/results/lindinger2020_table1.md": ("lindinger2020_table1", "lindinger2020_table1_published_settings"),
    "docs/results/lindinger2020_table2.md": ("lindinger2020_table2",),
    "docs/dgpbench_uci.md": (
        "dgpbench_uci_summary",
        "dgpbench_uci",
        "dgpbench_uci_pictures",
        "dgpbench_uci_extrapolation",
    ),
    "docs/results/dgpbench_frontier.md": ("dgpbench_frontier_pairs", "dgpbench_frontier_extrapolation_pairs"),
    "docs/laptop.md": STUDIES,
}
PICTURES = ("docs/images/table1.png", "docs/images/laptop.png")


# Ours of Table 1, boston, at laptop: mean and standard error of ten splits. The paper has sgp -2.58 (0.10), sghmc
# -2.75 (0.18), -2.51 (0.07), -2.53 (0.09), mf -2.43 (0.05), -2.48 (0.06), star -2.47 (0.08), -2.43 (0.05).
BOSTON = {
    ("sgp", 1): (-2.58, 0.10),
    ("sghmc", 1): (-2.75, 0.18),
    ("sghmc", 2): (-2.51, 0.07),
    ("sghmc", 3): (-2.53, 0.09),
    ("mf", 2): (-2.20, 0.05),
    ("mf", 3): (-2.48, 0.06),
    ("star", 2): (-2.47, 0.08),
    ("star", 3): (-2.83, 0.05),
}
COST = {"record": {"seconds": {"tracing": 1.0, "training": 80.0, "prediction": 1.0, "total": 90.0}}}


def docs(*arguments: str) -> int:
    """Run `make docs` with these arguments."""
    return main(arguments)


def write_pages(folder: Path) -> None:
    for page, names in PAGES.items():
        (folder / page).parent.mkdir(parents=True, exist_ok=True)
        parts = "".join(f"<!-- made by `make docs`: {name} -->\n<!-- end of {name} -->\n" for name in names)
        (folder / page).write_text(f"# {page}\n\nWords before.\n\n{parts}\nWords after.\n")
    (folder / "docs" / "methods.md").write_text("# Methods\n")


def study(results: Path, tll: float, budget: str, split: int, **identity) -> None:
    seconds = {"training": 3600.0 if budget == "paper" else 360.0, "total": 3960.0}
    given = {"num_layers": 2, "method": "mf", "overrides": {"precision": "mixed"}} | identity
    write_toy(results, {"tll": tll}, budget=budget, split=split, record={"seconds": seconds}, **given)


def part(folder: Path, name: str) -> str:
    """Return the text between the markers of a part."""
    page = next(page for page, names in PAGES.items() if name in names)
    begin, end = f"<!-- made by `make docs`: {name} -->", f"<!-- end of {name} -->"
    return (folder / page).read_text().partition(begin)[2].partition(end)[0].strip()


def rows(text: str) -> dict[str, dict[str, str]]:
    """The first grid of a text: label -> column -> cell."""
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    return {line[0]: dict(zip(lines[0][1:], line[1:], strict=True)) for line in lines[2:]}


def snapshot(folder: Path) -> dict[str, str]:
    return {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in (*PAGES, *PICTURES)}
