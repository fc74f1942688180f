"""Small items run without training, and edits of their compact records."""

import json
from pathlib import Path

import fit_once

from dgpbench.config.canonical import digest
from dgpbench.runs.record import as_text

GIVEN = ("dataset=boston", "split=range(2)", "budget=smoke")
SPELT = {"sort_keys": True, "separators": (",", ":")}
SMALL = {
    "lindinger2020_table1": ("method=sgp,star", "method.num_layers=1,3"),
    "lindinger2020_table2": (),
    "lindinger2020_tables5": (),
}
STAR = ("method=star", "method.num_layers=3", "dataset=boston", "budget=smoke")


def lines_of(results: Path, kind: str = "run") -> list[dict]:
    texts = [text for path in sorted(results.glob("records/[!.]*.jsonl")) for text in path.read_text().splitlines()]
    return [line for line in map(json.loads, texts) if line["kind"] == kind]


def bytes_of(results: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in results.glob("records/[!.]*")}


def first_run(results: Path) -> tuple[Path, int]:
    """The first file, and the number of its first run line."""
    path = sorted(results.glob("records/*.jsonl"))[0]
    return path, 1 + next(i for i, text in enumerate(path.open()) if json.loads(text)["kind"] == "run")


def edit(results: Path, change) -> str:
    """Change the first run line; FILE:LINE."""
    path, number = first_run(results)
    rewrite(path, number, change)
    return f"{path}:{number}"


def edit_shared(results: Path, change) -> str:
    """Change the shared part of the first run; return FILE:LINE."""
    path, number = first_run(results)
    lines = list(map(json.loads, path.read_text().splitlines()))
    (shared,) = [i for i, line in enumerate(lines, 1) if line.get("id") == lines[number - 1]["shared"]]
    rewrite(path, shared, change)
    return f"{path}:{shared}"


def rewrite(path: Path, number: int, change) -> None:
    """Change a line as whoever knows the format would: with the digest of the new content."""
    lines = list(map(json.loads, path.read_text().splitlines()))
    line = lines[number - 1]
    change(line)
    if line.get("kind") == "shared" and isinstance(line.get("id"), str):
        before, line["id"] = line["id"], digest(as_text({k: v for k, v in line.items() if k not in ("id", "kind")}))
        for each in lines:
            if each.get("shared") == before:
                each["shared"] = line["id"]
    path.write_text("".join(signed(each) for each in lines))


def signed(line: dict) -> str:
    """Return a line with an updated digest, if it had one."""
    new = {"digest": digest(json.dumps({k: v for k, v in line.items() if k != "digest"}, **SPELT))}
    return json.dumps(line | (new if "digest" in line else {}), **SPELT) + "\n"


def export(results: Path, *words: str) -> int:
    return fit_once.command("results", "export", *words, f"results_dir={results}")


def read(path: Path) -> dict:
    return json.loads(path.read_text())
