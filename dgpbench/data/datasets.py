"""Data sets by name: one YAML file each in ``conf/dataset`` is the only list. Load, fetch, verify and import them."""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dgpbench.config import groups
from dgpbench.config.settings import build, declared, did_you_mean, setting
from dgpbench.data import download, published, user_table
from dgpbench.data.cells import TableSettings
from dgpbench.data.download import Copy, Damaged, RequiredFile, Source
from dgpbench.data.table import Table
from dgpbench.errors import UserError
from dgpbench.system.files import replacing

# A file that neither its name nor its hash identifies is read on trial, up to this size.
TRIAL_BYTES = 64_000_000
TRIAL_SUFFIXES = {".zip", ".csv", ".txt", ".data", ".arff", ".xls", ".xlsx"}


@dataclass(frozen=True)
class SyntheticSettings:
    """Settings of a synthetic table."""

    seed: int = setting("seed of the table, independent of the run's", low=0)
    num_rows: int = setting("rows to draw", low=2)


@dataclass(frozen=True)
class NoSettings:
    """Settings of any other data set."""


SETTINGS: dict[str, type] = {"csv": TableSettings, "synthetic": SyntheticSettings}


def settings_class(spec: Mapping[str, Any]) -> type:
    """Return the class of settings for data sets of this kind."""
    return SETTINGS.get(spec["kind"], NoSettings)


def specs() -> dict[str, dict[str, Any]]:
    """Return each data set's file of conf/ by name; without Hydra, for lists and cards."""
    return {name: groups.describe("dataset", name) for name in groups.names("dataset")}


def load(spec: Mapping[str, Any]) -> Table:
    """Load the table of one data set's composed configuration from the cache, a package or the network.

    :raises UserError: when the table is unavailable or invalid
    """
    if spec.get("kind") not in LOADERS:
        raise UserError(f"dataset.kind={spec.get('kind')} is unknown; available: {', '.join(LOADERS)}")
    try:
        return LOADERS[spec["kind"]](spec)
    except download.Unavailable as error:
        offline = ", ".join(name for name, other in specs().items() if is_offline(other))
        raise UserError(f"{error}, or use a data set that needs no download ({offline})") from error


def required_files(spec: Mapping[str, Any]) -> list[RequiredFile]:
    """Return the files that a data set needs from the cache or the network."""
    if "sources" not in spec:
        return []
    return published.airline_files(spec) if spec["kind"] == "airline" else published.required_files(spec)


def is_offline(spec: Mapping[str, Any]) -> bool:
    """Return whether the data set needs no download: it is drawn, or shipped with an installed package."""
    if spec["kind"] in ("embedded", "flights"):
        return find_spec(spec["package"]) is not None
    return spec["kind"] in ("sklearn", "synthetic")


def is_here(spec: Mapping[str, Any]) -> bool:
    """Return whether the table can be loaded without a download."""
    return is_offline(spec) or all(download.is_here(each.sources) for each in required_files(spec))


# Synthetic tables -------------------------------------------------------------------------------------------------


def bimodal(generator: np.random.Generator, num_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """y = 10 sin x or 10 cos x with probability 1/2 each, + N(0, 1); x ~ U[-2, 2]."""
    x = generator.uniform(-2, 2, num_rows)
    sine = generator.random(num_rows) < 0.5
    return x, 10 * np.where(sine, np.sin(x), np.cos(x)) + generator.standard_normal(num_rows)


def heteroscedastic(generator: np.random.Generator, num_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """y = 7 sin x + 3 |cos(x/2)| eps, eps ~ N(0, 1); x ~ U[-4, 4]."""
    x = generator.uniform(-4, 4, num_rows)
    return x, 7 * np.sin(x) + 3 * np.abs(np.cos(x / 2)) * generator.standard_normal(num_rows)


def step(generator: np.random.Generator, num_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """y = -1 for x < 0 and 1 for x > 0, without noise; x ~ U[-2, 2] without [-0.2, 0.2]."""
    x = generator.uniform(0.2, 2, num_rows) * generator.choice([-1, 1], num_rows)
    return x, np.sign(x)


DRAWS = {"bimodal": bimodal, "heteroscedastic": heteroscedastic, "step": step}


def load_synthetic(spec: Mapping[str, Any]) -> Table:
    """Draw a table of Hernandez-Munoz (2018), two of them from Depeweg et al. (2018), from its own ``seed``."""
    settings = build(SyntheticSettings, "dataset", {key: spec[key] for key in declared(SyntheticSettings)})
    x, y = DRAWS[spec["draw"]](np.random.Generator(np.random.PCG64(settings.seed)), settings.num_rows)
    return Table(spec["name"], x[:, None], y, ("x",), "y", (), "synthetic")


LOADERS: dict[str, Callable[[Mapping[str, Any]], Table]] = {
    "uci": published.load,
    "embedded": published.load_embedded,
    "sklearn": published.load_diabetes,
    "flights": published.load_flights,
    "airline": published.load_airline,
    "synthetic": load_synthetic,
    "csv": user_table.load,
}


# ``dgpbench data`` ------------------------------------------------------------------------------------------------


class Row(NamedTuple):
    """One line of output."""

    name: str
    status: str
    detail: str


def fetch(names: Sequence[str] = ()) -> list[Row]:
    """Load each data set once, by default all that are downloaded; status "ready" or "refused"."""
    return [_fetched(name, spec) for name, spec in _chosen(names).items()]


def _fetched(name: str, spec: dict[str, Any]) -> Row:
    try:
        table = load(spec)
    except UserError as error:
        return Row(name, "refused", str(error))
    origins = ", ".join(file.origin for file in table.sources) or spec["kind"]
    return Row(name, "ready", f"{table.num_rows:,} x {table.X.shape[1]}, {table.verified}, from {origins}")


def verify(names: Sequence[str] = ()) -> list[Row]:
    """Read every cached file again; status "ok", "damaged" or "absent". Nothing is removed."""
    rows = []
    for name, spec in _chosen(names).items():
        checked = []
        for file in required_files(spec):
            for copy in download.cached(file.sources):
                try:
                    file.accept(copy)
                    checked.append(Row(name, "ok", str(copy.path)))
                except Damaged as damage:
                    checked.append(Row(name, "damaged", f"{copy.path} {damage}"))
        if is_offline(spec):
            row = _fetched(name, spec)
            checked.append(Row(name, "ok" if row.status == "ready" else "damaged", row.detail))
        rows += checked or [Row(name, "absent", f"dgpbench data fetch {name}")]
    return rows


def _chosen(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    known = {name: spec for name, spec in specs().items() if spec["kind"] != "csv"}
    for name in names:
        if name not in known:
            raise UserError(f"unknown data set {name!r}{did_you_mean(name, known)}; available: {', '.join(known)}")
    chosen = names or [name for name, spec in known.items() if not is_offline(spec)]
    return {name: known[name] for name in chosen}


def import_path(path: str | Path) -> list[Row]:
    """Copy a file, or every file of a folder that belongs to a data set, into the cache.

    A file is identified by its name or sha256, else by trial; in every case its content decides. Each is imported at
    most once for each data set, and a damaged file with a known name is reported.
    """
    path = Path(path).expanduser()
    if not path.exists():
        raise UserError(f"{path} does not exist: name a file or folder to import")
    files = [path] if path.is_file() else sorted(each for each in path.rglob("*") if each.is_file())
    rows = []
    for file in files:
        sha256 = download.sha256_of(file)
        for name, spec in specs().items():
            found: list[Row] = []
            for required, source, is_known in _candidates(spec, file, sha256):
                try:
                    required.accept(Copy(source, file, str(file)))
                except Damaged as damage:
                    found += [Row(name, "damaged", f"{file} {damage}")] if is_known else []
                    continue
                target = download.cache_directory() / source.place
                if file.resolve() != target.resolve():
                    with replacing(target, download.ANOTHER_CACHE) as partial:
                        shutil.copyfile(file, partial)
                found = [Row(name, "imported", f"{file} as {target}")]
                break
            rows += found[:1]
    if not any(row.status == "imported" for row in rows):
        damages = [f"; {row.name}: {row.detail}" for row in rows]
        raise UserError(f"{path} holds no file of a data set{''.join(damages)}")
    return rows


def _candidates(spec: Mapping[str, Any], file: Path, sha256: str) -> Iterator[tuple[RequiredFile, Source, bool]]:
    """Yield what a file may be a copy of, and whether its name or hash identifies it; else it is read on trial."""
    suffix, is_small = file.suffix.lower(), file.stat().st_size <= TRIAL_BYTES
    for required in required_files(spec):
        sources = download.with_unpacked(required.sources)
        known = [source for source in sources if file.name == source.place.name or sha256 == source.sha256]
        yield from ((required, source, True) for source in known)
        if required.recognisable and is_small and suffix in TRIAL_SUFFIXES:
            others = [source for source in sources if source not in known]
            yield from ((required, each, False) for each in others if (suffix == ".zip") == (each.member is not None))


def where() -> tuple[Path, Path | str | None, list[Path]]:
    """Return the cache directory, the mirror and the files in the cache."""
    cache = download.cache_directory()
    files = sorted(path for path in cache.rglob("*") if path.is_file() and not path.name.startswith(".partial-"))
    return cache, download.mirror(), files
