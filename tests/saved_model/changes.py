"""Change saved models at random and load them again; run as a program, so that its memory can be measured.

    python changes.py FOLDER NUMBER

Prints JSON: what became of each change, and the peak of this process's memory.
"""

import copy
import hashlib
import io
import json
import random
import re
import resource
import sys
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dgpbench import DeepGPRegressor, saved_model
from dgpbench.config.canonical import config_hash
from dgpbench.errors import UserError
from dgpbench.methods.plugins import load_file

PLUGIN = """
from dataclasses import dataclass
import numpy as np
from dgpbench.plugins import Gaussian, Method, Settings, setting

@dataclass(frozen=True)
class Ridge(Settings):
    penalty: float = setting("of the squares", low=0, default=1.0)

class Fitted:
    def __init__(self, W):
        self.W = W
    def predict(self, X, seed):
        return Gaussian(X @ self.W[:, 0], np.ones(len(X)))
    def parameters(self):
        return {"W": self.W}

def fit(train, settings, seeds, log):
    squares = train.X.T @ train.X + settings.penalty * np.eye(train.X.shape[1])
    return Fitted(np.linalg.solve(squares, train.X.T @ train.Y))

METHOD = Method("ridge", fit, Ridge, restore=lambda settings, arrays: Fitted(arrays["W"]))
"""
FEW = {"training.max_iterations": 2, "prediction.num_samples": 3}
DEEP = FEW | {"method.num_inducing": 5, "method.width": 2}
MODELS: dict[str, dict[str, Any]] = {"gpr": FEW, **dict.fromkeys(("mf", "sghmc", "sod", "aep"), DEEP), "ridge": {}}
RNG = np.random.default_rng(0)
ROWS = pd.DataFrame({"a": RNG.normal(size=30), "b": RNG.normal(size=30), "c": ["x", "y", "z"] * 10})
TARGETS = np.sin(ROWS["a"]) + 0.1 * RNG.normal(size=30)
DEEP_JSON = "[" * 100_000 + "]" * 100_000
VALUES = (
    *(None, True, -1, 0, 1, 7, 0.5, 1e300, -1e300, float("nan"), float("inf"), 10**30, 2**31, 10**6, "", "x"),
    *(
        "../x",
        "/dev/zero",
        "inputs",
        "\x1b[31m",
        "\ud800",
        [],
        {},
        [[[]]],
        {"a": {"a": []}},
        [1e300],
        ["x"] * 5,
        DEEP_JSON,
    ),
)


def save(folder: Path, models: Mapping[str, dict[str, Any]]) -> None:
    """A small model of each method."""
    for method, settings in models.items():
        layers = 2 if settings is DEEP else None
        settings = settings | {"dataset.categorical": ["c"]}
        DeepGPRegressor(method, num_layers=layers, budget="smoke", settings=settings).fit(ROWS, TARGETS).save(
            folder / method
        )


def changed(facts: dict[str, Any], draw: random.Random) -> dict[str, Any]:
    """A copy with one field replaced, removed or added, at any depth."""
    within: Any = (facts := copy.deepcopy(facts))
    within = facts[draw.choices(["model", "about", "files"], [6, 2, 1])[0]]
    while True:
        keys = list(within) if isinstance(within, dict) else list(range(len(within)))
        key = draw.choice(keys)
        if isinstance(within[key], dict | list) and within[key] and draw.random() < 0.8:
            within = within[key]
            continue
        how = draw.random()
        if how < 0.15:
            del within[key]
        elif how < 0.25 and isinstance(within, dict):
            within["added"] = draw.choice(VALUES)
        elif isinstance(within[key], str | int | float) and how < 0.4:
            within[key] = {str: "other", bool: False, int: 3, float: 2.5}[type(within[key])]
        else:
            within[key] = draw.choice(VALUES)
        return facts


def changed_arrays(data: bytes, draw: random.Random) -> bytes:
    """Arrays with one changed in shape, type, name or value, compressed, or with a huge declared size."""
    with np.load(io.BytesIO(data)) as file:
        arrays = dict(file)
    name = draw.choice(list(arrays))
    array = np.asarray(arrays.pop(name))
    kind = draw.randrange(8)
    if kind in (6, 7):
        return huge(arrays, name, zipfile.ZIP_STORED if kind == 6 else zipfile.ZIP_DEFLATED)
    others = {
        0: lambda: {name: array.reshape(-1)[:1]},
        1: lambda: {name: np.tile(np.atleast_1d(array), 3)},
        2: lambda: {name: array.astype("U8")},
        3: lambda: {name: np.full(array.shape, np.nan)},
        4: lambda: {f"{name}x": array},
        5: lambda: {name: array.astype(complex)[..., None]},
    }
    buffer = io.BytesIO()
    np.savez(buffer, **(arrays | others[kind]()))
    return buffer.getvalue()


def huge(arrays: dict[str, np.ndarray], name: str, compression: int) -> bytes:
    """An archive of few bytes with an array of 5.6 GB by its header, and one of 0.3 GB once it is unpacked."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for each, values in arrays.items():
            with archive.open(f"{each}.npy", "w") as file:
                np.lib.format.write_array(file, np.asarray(values))
        with archive.open(f"{name}.npy", "w") as file:
            header = {"descr": "<f8", "fortran_order": False, "shape": (700_000_000,)}
            np.lib.format.write_array_header_1_0(file, header)
            if compression == zipfile.ZIP_DEFLATED:
                file.write(bytes(2**28))
    return buffer.getvalue()


def written(facts: dict[str, Any], arrays: bytes, target: Path, *, digest: str | None) -> None:
    """A model's two files.

    :param digest: the original's; None makes one of the changed content, as a stranger would
    """
    target.mkdir()
    if digest is None:
        try:
            facts["digest"] = config_hash({key: each for key, each in facts.items() if key != "digest"})
        except (RecursionError, TypeError):
            facts.pop("digest", None)
    text = json.dumps(facts).replace(json.dumps(DEEP_JSON), DEEP_JSON)
    (target / "model.json").write_text(text)
    (target / "parameters.npz").write_bytes(arrays)


def outcome(target: Path, original: dict[str, Any], known: dict[str, np.ndarray]) -> str:
    """Return 'refused', 'same' or 'other' predictions, or the unexpected outcome."""
    try:
        model = saved_model.load(target)
        key = json.dumps(
            [
                model.description.to_json(),
                hashlib.sha256(b"".join(map(np.ndarray.tobytes, model.arrays.values()))).hexdigest(),
            ]
        )
        if key not in known:  # what is all the same predicts the same: TensorFlow need not make its graph again
            mixture = model.predict(model.inputs(ROWS))
            known[key] = np.concatenate([mixture.mean, mixture.variance])
    except UserError as refusal:
        text = str(refusal)
        return "refused" if text.isprintable() and len(text) < 1000 else f"a long refusal: {text}"
    except BaseException as problem:
        return f"{type(problem).__name__}: {problem}"
    if not np.all(np.isfinite(known[key])):
        return "not finite"
    return "same" if np.array_equal(known[key], original["predictions"]) else "other"


def main(folder: Path, number: int) -> None:
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (2**35, 2**35))
    (folder / "plugin.py").write_text(PLUGIN)
    load_file(folder / "plugin.py")
    save(folder, MODELS)
    draw, ended = random.Random(0), []
    originals = {}
    for name in MODELS:
        model = saved_model.load(folder / name)
        mixture = model.predict(model.inputs(ROWS))
        originals[name] = {"predictions": np.concatenate([mixture.mean, mixture.variance])}
    known: dict[str, np.ndarray] = {}
    for count in range(number):
        name = list(MODELS)[count % len(MODELS)]
        facts = json.loads((folder / name / "model.json").read_text())
        data, digest = (folder / name / "parameters.npz").read_bytes(), facts["digest"]
        vouched = count // len(MODELS) % 2 == 0
        if draw.random() < 0.2:
            data = changed_arrays(data, draw)
            if not vouched:
                facts["files"]["parameters.npz"] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        else:
            facts = changed(facts, draw)
        target = folder / f"changed-{count}"
        written(facts, data, target, digest=digest if vouched else None)
        ended.append(
            {
                "model": name,
                "vouched": vouched,
                "outcome": outcome(target, originals[name], known),
                "folder": str(target),
            }
        )
    # ru_maxrss begins with the memory of the process that started this one.
    peak = 1024 * int(re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[1])
    print(json.dumps({"ended": ended, "peak": peak}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
