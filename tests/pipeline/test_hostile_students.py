"""Student folders that were damaged, edited or made to harm are refused in one sentence."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
import torch

from noisyteacher.core.errors import InputError
from noisyteacher.core.integrity import file_sha256, sealed_json
from noisyteacher.data import Tfidf, Tokens
from noisyteacher.data.embeddings import Embeddings, EmbeddingsAndWords
from noisyteacher.data.input_format import InputFormat
from noisyteacher.models import MLP, BagLinear, ResNetCifar, TextEncoder
from noisyteacher.pipeline.student import Student, load_student, save_student
from tiny_encoder import save_classifier


@pytest.fixture(scope="module")
def students(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("students")
    torch.manual_seed(0)
    table = MLP(3, 2, (4, 4))
    inputs = InputFormat("table", None, (0.0,) * 3, (1.0,) * 3)
    save_student(folder / "table", Student(table, table.build().state_dict(), ("a", "b"), inputs))
    words = Tfidf(min_texts=1).fit(["good film", "bad film", "good good bad"])
    bag = BagLinear(words.features, 2)
    text = Student(bag, bag.build().state_dict(), ("a", "b"), InputFormat("text", words))
    save_student(folder / "text", text)
    encoder = Embeddings(save_classifier(folder / "encoder", {0: "bad", 1: "good"}), 9)
    both = InputFormat("text", EmbeddingsAndWords(encoder, words))
    wide = BagLinear(both.features, 2)
    save_student(folder / "both", Student(wide, wide.build().state_dict(), ("a", "b"), both))
    net = ResNetCifar(8, 2)
    image = InputFormat("image", None, (0.5,) * 3, (0.2,) * 3, (8, 8))
    save_student(folder / "image", Student(net, net.build().state_dict(), ("a", "b"), image))
    return folder


@pytest.fixture
def student(students: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    shutil.copytree(students / request.param, tmp_path / "s")
    return tmp_path / "s"


def _edit(folder: Path, name: str, edit: Callable[[dict[str, Any]], None]) -> None:
    """Change a file as someone would who knows how to mend the checksums."""
    path = folder / name
    fields = orjson.loads(path.read_bytes())
    fields.pop("sha256", None)
    edit(fields)
    if name != "config.json":
        path.write_bytes(orjson.dumps(fields))
        _edit(
            folder, "config.json", lambda config: config["files"].update({name: file_sha256(path)})
        )
        return
    path.write_bytes(sealed_json(fields))


EDITS: list[tuple[str, str, Callable[[dict[str, Any]], Any], str]] = [
    ("table", "config.json", lambda c: c["model"].update(hidden=[10**9, 4]), "hidden is 10{9}"),
    ("table", "config.json", lambda c: c["model"].update(hidden=[5, 4]), "first.bias has shape"),
    ("table", "config.json", lambda c: c["model"].update(hidden=[4]), "has shape .* None by the"),
    ("table", "config.json", lambda c: c["model"].update(features=10**12), "features is 10{12}"),
    ("table", "config.json", lambda c: c["model"].update(model="Nothing"), "Unknown model"),
    ("table", "config.json", lambda c: c.update(model=[]), "config must be a dict"),
    ("table", "config.json", lambda c: c.update(classes=["a"]), "names 1 classes, .* has 2"),
    ("table", "config.json", lambda c: c.update(classes="ab"), "no list of class names"),
    ("table", "config.json", lambda c: c.update(about=[]), "no description of its student"),
    ("table", "config.json", lambda c: c.update(version=99), "format version 99"),
    ("table", "config.json", lambda c: c.pop("version"), "format version None"),
    ("table", "config.json", lambda c: c.update(files=[]), "does not list the student's files"),
    ("table", "config.json", lambda c: c["files"].update({"../x": ""}), "'../x' points outside"),
    ("table", "config.json", lambda c: c["files"].update({"/etc/passwd": ""}), "points outside"),
    ("table", "config.json", lambda c: c["files"].update({"gone": ""}), "gone is missing"),
    ("table", "config.json", lambda c: c["inputs"].update(mean=[0.0] * 9), "wrong mean"),
    ("table", "config.json", lambda c: c["inputs"].update(std=[1, 1, "x"]), "wrong std"),
    ("table", "config.json", lambda c: c["inputs"].update(std=[1, 1, 0]), "wrong std"),
    ("table", "config.json", lambda c: c["inputs"].update(kind="sound"), "wrong kind"),
    ("table", "config.json", lambda c: c["inputs"].update(columns=3), "wrong columns"),
    ("table", "config.json", lambda c: c.pop("inputs"), "is damaged"),
    ("image", "config.json", lambda c: c["inputs"].update(size=[10**6, 10**6]), "wrong size"),
    ("image", "config.json", lambda c: c["inputs"].update(size=[0, 8]), "wrong size"),
    ("image", "config.json", lambda c: c["model"].update(depth=6 * 10**8 + 2), "depth is 6"),
    ("image", "config.json", lambda c: c["inputs"].update(flip="yes"), "wrong flip"),
    ("text", "featurizer.json", lambda f: f.update(width=10**12), "its width is 10{12}"),
    ("text", "featurizer.json", lambda f: f["words"].pop(), "not one idf for each word"),
    ("text", "featurizer.json", lambda f: f.update(kind="tokens"), "tokenizer is missing"),
    ("text", "featurizer.json", lambda f: f.update(kind="embeddings"), "encoder is missing"),
    ("text", "featurizer.json", lambda f: f.update(kind="pickle"), "not a saved featurizer"),
    ("both", "featurizer.json", lambda f: f.pop("words"), "has no words of TF-IDF"),
    ("both", "featurizer.json", lambda f: f["words"]["idf"].pop(), "not one idf for each word"),
    ("both", "featurizer.json", lambda f: f.update(max_length=0), "has the max_length 0"),
    ("both", "featurizer.json", lambda f: f.update(kind="embeddings"), "reads 23 features and"),
    (
        "text",
        "featurizer.json",
        lambda f: (f["words"].append("new"), f["idf"].append(1.0)),
        "the model reads 7 features and the inputs have 8",
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("student", "name", "edit", "told"), EDITS, ids=range(len(EDITS)), indirect=["student"]
)
def test_contradictions_and_sizes_are_refused(
    student: Path, name: str, edit: Callable[[dict[str, Any]], None], told: str
) -> None:
    _edit(student, name, edit)
    with pytest.raises(InputError, match=told):
        load_student(student)


def _refusal(folder: Path) -> str | None:
    try:
        load_student(folder)
    except InputError as error:
        return str(error)
    return None


@pytest.mark.parametrize("student", ["text"], indirect=True)
@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "featurizer.json"])
def test_one_flipped_bit_is_noticed_and_the_file_named(student: Path, name: str) -> None:
    path = student / name
    content = path.read_bytes()
    unnoticed = 0
    for bit in np.random.default_rng(0).integers(0, 8 * len(content), 60).tolist():
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        told = _refusal(student)
        if told is not None:
            assert name in told or str(student) in told
            continue
        unnoticed += 1
        assert name == "config.json", "white space of JSON is all that may change"
        assert orjson.loads(flipped) == orjson.loads(content)
    assert unnoticed < 15


@pytest.mark.parametrize("student", ["text"], indirect=True)
@pytest.mark.parametrize("name", ["model.safetensors", "featurizer.json", "config.json"])
def test_links_that_lead_out_are_refused(student: Path, tmp_path: Path, name: str) -> None:
    (student / name).rename(tmp_path / "elsewhere")
    (student / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match=f"'{name}' points outside"):
        load_student(student)


@pytest.mark.parametrize("student", ["table"], indirect=True)
def test_weights_that_claim_terabytes_are_refused(student: Path) -> None:
    path = student / "model.safetensors"
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = orjson.loads(content[8 : 8 + size])
    header["first.weight"]["shape"] = [10**6, 10**6]
    told = orjson.dumps(header)
    path.write_bytes(len(told).to_bytes(8, "little") + told + content[8 + size :])
    digest = file_sha256(path)
    _edit(student, "config.json", lambda c: c["files"].update({"model.safetensors": digest}))
    with pytest.raises(InputError, match="is damaged"):
        load_student(student)


def test_a_tokenizer_is_read_from_its_folder_alone(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="the extra [hf] is not installed")
    encoder = save_classifier(tmp_path / "encoder", {0: "a", 1: "b"})
    network = TextEncoder(str(encoder), 2).build()
    made = Student(
        network.spec,
        network.state_dict(),
        ("a", "b"),
        InputFormat("text", Tokens(encoder, 8)),
    )
    save_student(tmp_path / "s", made)
    assert load_student(tmp_path / "s").predict(["a film"]).shape == (1,)
    name = "tokenizer/tokenizer_config.json"
    for value in ("/etc/hostname", "../../encoder/vocab.txt"):
        _edit(tmp_path / "s", name, lambda c, v=value: c.update(vocab_file=v))
        with pytest.raises(InputError, match="points outside"):
            load_student(tmp_path / "s")
    _edit(tmp_path / "s", name, lambda c: c.pop("vocab_file"))
    _edit(tmp_path / "s", "config.json", lambda c: c["model"].update(config=None))
    with pytest.raises(InputError, match="its encoder is not described in it"):
        load_student(tmp_path / "s")
