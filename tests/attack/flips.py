"""One-bit flips over every kind of stored file: no result may change silently.

    python tests/attack/flips.py --flips 2000 --seed 21 --jobs 16

For every kind of file that the package writes and reads back, random single bits are flipped, and
the file is read as the package reads it. Each flip must be refused with a sentence, be told by a
note, or change nothing of what is loaded; anything else is a failure.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import torch
import workplace

from noisyteacher.auditing import audit
from noisyteacher.core.errors import InputError, NoisyTeacherWarning
from noisyteacher.core.integrity import sealed_json
from noisyteacher.data import Tfidf, load_dataset
from noisyteacher.data.frozen_encoder import _read_parts, _write_part
from noisyteacher.data.input_format import InputFormat
from noisyteacher.halfspace.study import load_rows, run_study, smoke_study
from noisyteacher.labels import TeacherLabels
from noisyteacher.models import MLP, BagLinear
from noisyteacher.noise import TeacherNoise
from noisyteacher.pipeline.student import Student, load_student, save_student
from noisyteacher.report.page_source import read_audit
from noisyteacher.runs import Row, RunFolder, append_row, read_rows, record_command
from noisyteacher.runs.comparison import (
    Comparison,
    Confusion,
    Example,
    Predictions,
    read_comparison,
)
from noisyteacher.runs.folder import read_command_log
from noisyteacher.train.checkpoint import EpochRecord, History, load_checkpoint, save_checkpoint
from user_files import noisy_probs, write_digit_folders

assert workplace  # puts the tests' helpers on the path


@dataclass(frozen=True)
class Kind:
    """A stored file: which one, and what the package makes of the folder that holds it."""

    file: str  # below the folder; * stands for a random token
    read: Callable[[Path], Any]


def _digest(*arrays: Any) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        value = np.ascontiguousarray(np.asarray(array))
        digest.update(f"{value.dtype} {value.shape}".encode() + value.tobytes())
    return digest.hexdigest()


def _labels(folder: Path) -> object:
    labels = TeacherLabels.open(folder / "labels")
    about = (labels.classes, labels.teacher, labels.revision, labels.temperature)
    arrays = (labels.topk_index, labels.topk_logprob, labels.tail, labels.missing)
    return about, labels.ids.tolist(), _digest(*arrays, *labels.extras.values())


def _student(name: str) -> Callable[[Path], object]:
    def read(folder: Path) -> object:
        student = load_student(folder / name)
        texts = name == "text"
        inputs: Any = ["good film", "bad film"] if texts else np.eye(3, dtype=np.float32)
        return student.classes, student.about, _digest(student.predict_proba(inputs))

    return read


def _noise(folder: Path) -> object:
    noise = TeacherNoise.load(folder / "noise.json")
    trust = noise.predict(noisy_probs(np.arange(90) % 3, 3, seed=5))
    return noise.get_params(), _digest(trust.alpha, trust.k)


def _checkpoint(folder: Path) -> object:
    loaded = load_checkpoint(folder / "checkpoints" / "s.safetensors", "mine")
    assert loaded is not None
    state, history = loaded
    return asdict(history), {name: _digest(value) for name, value in sorted(state.items())}


def _settings(folder: Path) -> object:
    RunFolder(folder).claim(SETTINGS, write=False)
    return None


def _predictions(folder: Path) -> object:
    found = Predictions.load(folder / "predictions.safetensors")
    return _digest(found.top, found.probability)


def _images(folder: Path) -> object:
    found = load_dataset(folder / "pictures" / "gold", cache=folder / "cache")
    about = (found.name, found.classes, found.mean, found.std)
    return about, found.ids.tolist(), _digest(found.inputs, found.y, found.test_inputs)


def _embeddings(folder: Path) -> object:
    """What the cache does not give is computed anew."""
    into = np.zeros(VECTORS.shape, np.float16)
    known = _read_parts(folder / "embeddings", KEYS, into)
    return _digest(np.where(known[:, None], into, VECTORS))


KINDS: dict[str, Kind] = {
    "label store, manifest": Kind("labels/manifest.json", _labels),
    "label store, part": Kind("labels/part-*.parquet", _labels),
    "student of texts, weights": Kind("text/model.safetensors", _student("text")),
    "student of texts, config": Kind("text/config.json", _student("text")),
    "student of texts, featurizer": Kind("text/featurizer.json", _student("text")),
    "student of tables, weights": Kind("table/model.safetensors", _student("table")),
    "student of tables, config": Kind("table/config.json", _student("table")),
    "noise model": Kind("noise.json", _noise),
    "checkpoint": Kind("checkpoints/s.safetensors", _checkpoint),
    "results rows": Kind(
        "results.jsonl", lambda f: list(map(asdict, read_rows(f / "results.jsonl")))
    ),
    "recipe": Kind("recipe.json", _settings),
    "commands": Kind("story.json", lambda f: asdict(read_command_log(f))),
    "comparison": Kind("comparison.json", lambda f: repr(read_comparison(f))),
    "audit": Kind("audit.json", lambda f: read_audit(f / "audit.json")),
    "predictions": Kind("predictions.safetensors", _predictions),
    "halfspace rows": Kind("halfspace/results.jsonl", lambda f: load_rows(f / "halfspace")),
    "image cache, header": Kind("cache/*/images.json", _images),
    "image cache, images": Kind("cache/*/train_images.npy", _images),
    "image cache, labels": Kind("cache/*/train_y.npy", _images),
    "embedding cache": Kind("embeddings/*.safetensors", _embeddings),
}
KEYS = np.array([bytes([65 + i]) * 16 for i in range(8)])
VECTORS = np.linspace(-1, 1, 8 * 16, dtype=np.float16).reshape(8, 16)
SETTINGS = {"name": "distill", "seed": 3, "classes": ["a", "b"], "lr": 0.1}


def make_files(folder: Path) -> None:
    """One file of each kind, as the package writes it."""
    torch.manual_seed(0)
    y = np.arange(120) % 3
    ids = [f"r{i}" for i in range(len(y))]
    labels = TeacherLabels.from_probs(
        ids,
        noisy_probs(y, 3),
        ["a", "b", "c"],
        teacher="planted",
        revision="1",
        extras={"embedding": np.ones((len(y), 4), np.float32)},
    )
    labels.save(folder / "labels")
    words = Tfidf().fit(["good film", "bad film", "good good bad"])
    bag, table = BagLinear(words.features, 2), MLP(3, 2, (4,))
    weights = {k: torch.randn(v.shape) for k, v in bag.build().state_dict().items()}
    about = {"verdict": "It is good.", "seconds": 1.5}
    text = Student(bag, weights, ("a", "b"), InputFormat("text", words), about)
    save_student(folder / "text", text)
    numbers = InputFormat("table", None, (0.0,) * 3, (1.0,) * 3)
    rows = Student(table, table.build().state_dict(), ("a", "b"), numbers, about)
    save_student(folder / "table", rows)
    noise = TeacherNoise(per_class=True).fit(labels, y)
    noise.save(folder / "noise.json")
    history = History("mine", [EpochRecord(1, 0.5, 80.0, 81.25)], 2.5, 100, 0.75)
    state = {"weight": torch.randn(4, 5), "step": torch.tensor(3)}
    save_checkpoint(folder / "checkpoints" / "s.safetensors", state, history)
    row = Row(
        *("distill", "set", "soft", 20, "SLaM()", 1, 1, 0, 2),
        accuracy={"last": 81.25, "selected": 80.5, "best_test": 82.0},
        macro_f1=0.8,
        teacher_accuracy=75.0,
        curve=[{"epoch": 1, "loss": 0.5, "selection": 80.0, "test": 81.25}],
        seconds=1.0,
        images_per_second=100.0,
        seeds={"recipe": 0},
        hardware="CPU",
    )
    append_row(folder / "results.jsonl", row)
    RunFolder(folder).claim(SETTINGS)
    record_command(folder, "noisyteacher distill --gold gold.csv", ["A note."])
    confusions = [Confusion("teacher", "the pool", [(0, 1, 5)])]
    examples = [Example("r1", "a", 0.75, "b", 0.5, text="good film")]
    Comparison("s", ["a", "b"], "the pool", 10, 2, confusions, examples).save(folder)
    found = audit(labels, [("a", "b", "c")[c] for c in y[:60]], ids[:60], replicates=50)
    (folder / "audit.json").write_bytes(sealed_json(found.to_dict()))
    Predictions(np.arange(9), np.linspace(0, 1, 9, dtype=np.float32)).save(
        folder / "predictions.safetensors"
    )
    for _ in run_study(smoke_study(), folder / "halfspace"):
        pass
    write_digit_folders(folder / "pictures", gold=12, pool=3)
    _images(folder)  # fills the cache
    _write_part(folder / "embeddings", KEYS, VECTORS)


def flip(folder: Path, name: str, bits: Iterable[int]) -> Counter[str]:
    """Flip bits one at a time in a copy of the files; what came of it, with the failures named."""
    kind, outcomes = KINDS[name], Counter[str]()
    with tempfile.TemporaryDirectory(prefix="flips-") as place:
        copy = shutil.copytree(folder, Path(place) / "files")
        path = next(copy.glob(kind.file))
        content = path.read_bytes()
        reference = orjson.dumps(kind.read(copy), default=repr)
        for bit in bits:
            flipped = bytearray(content)
            flipped[bit // 8] ^= 1 << bit % 8
            path.write_bytes(flipped)
            outcomes[_outcome(kind, copy, reference, bit)] += 1
    return outcomes


def _outcome(kind: Kind, folder: Path, reference: bytes, bit: int) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("error", NoisyTeacherWarning)
        try:
            found = orjson.dumps(kind.read(folder), default=repr)
        except InputError:
            return "refused"
        except NoisyTeacherWarning:
            return "told by a note"
        except Exception as error:
            return f"FAILED at bit {bit}: {type(error).__name__}: {error}"
    return "nothing changed" if found == reference else f"SILENT at bit {bit}"


def campaign(
    folder: Path, flips: int, seed: int, jobs: int, kinds: Iterable[str]
) -> dict[str, Counter[str]]:
    """What came of ``flips`` flips of each kind."""
    tasks = []
    for name in kinds:
        size = 8 * next(folder.glob(KINDS[name].file)).stat().st_size
        chance = np.random.default_rng([seed, *name.encode()])
        bits = chance.choice(size, min(flips, size), replace=False).tolist()
        tasks += [(name, bits[i::4]) for i in range(4)]
    found: dict[str, Counter[str]] = {name: Counter() for name in kinds}
    if jobs == 1:
        done = [flip(folder, *task) for task in tasks]
    else:
        with ProcessPoolExecutor(jobs) as pool:
            done = [f.result() for f in [pool.submit(flip, folder, *task) for task in tasks]]
    for (name, _), outcomes in zip(tasks, done, strict=True):
        found[name] += outcomes
    return found


def failures(found: dict[str, Counter[str]]) -> list[str]:
    """Every flip that changed something silently, or that no sentence was found for."""
    return [
        f"{name}: {outcome}"
        for name, outcomes in found.items()
        for outcome in outcomes
        if outcome.startswith(("SILENT", "FAILED"))
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--flips", type=int, default=200, help="of each kind of file")
    parser.add_argument("--seed", type=int, default=21)
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="flips-") as place:
        make_files(Path(place))
        found = campaign(Path(place), given.flips, given.seed, given.jobs, KINDS)
    for name, outcomes in found.items():
        known = {k: n for k, n in outcomes.items() if not k.startswith(("SILENT", "FAILED"))}
        print(f"{name}: {outcomes.total()} flips, {known}")
    bad = failures(found)
    print(*bad, sep="\n")
    print(f"{sum(o.total() for o in found.values())} flips, {len(bad)} failures.")
    raise SystemExit(1 if bad else 0)


if __name__ == "__main__":
    main()
