"""The verb ``export``: ONNX Runtime gives what the student gives."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import typer
from typer.testing import CliRunner, Result

from noisyteacher.cli.export import EPILOG, export
from noisyteacher.core.errors import InputError
from noisyteacher.data import Tfidf, Tokens
from noisyteacher.data.embeddings import Embeddings, EmbeddingsAndWords, ImageEmbeddings
from noisyteacher.data.input_format import RawInputs, fit_format, rgb_images
from noisyteacher.models import MLP, BagLinear, BagMLP, Linear, ModelSpec, ResNetCifar, TextEncoder
from noisyteacher.pipeline import Student, save_student
from tiny_encoder import save_classifier, save_image_encoder
from user_files import digits, reviews


def run(*arguments: object) -> Result:
    app = typer.Typer()
    app.command(epilog=EPILOG)(export)
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def made(spec: ModelSpec, inputs: Any, classes: int) -> Student:
    torch.manual_seed(0)
    network = spec.build()
    for parameter in network.parameters():  # a linear student starts at zero
        torch.nn.init.normal_(parameter, std=0.3)
    names = tuple(f"class {i}" for i in range(classes))
    return Student(network.spec, network.state_dict(), names, inputs)


def student_of(kind: str, folder: Path) -> tuple[Student, RawInputs]:
    images, _ = digits(9)
    if kind == "image embeddings":
        inputs, _ = fit_format("image", images, ImageEmbeddings(save_image_encoder(folder)))
        return made(Linear(12, 3), inputs, 3), images
    if kind == "image":
        inputs, _ = fit_format("image", rgb_images(images))
        return made(ResNetCifar(8, 3), inputs, 3), images
    if kind == "table":
        table = images.reshape(9, -1).astype(np.float32)
        inputs, _ = fit_format("table", table)
        return made(MLP(64, 3), inputs, 3), table
    texts, _ = reviews(9)
    if kind == "embeddings":
        save_classifier(folder, {0: "bad", 1: "good"})
        inputs, _ = fit_format("text", texts, Embeddings(folder, 9))
        return made(Linear(16, 2), inputs, 2), texts
    if kind == "embeddings and words":
        save_classifier(folder, {0: "bad", 1: "good"})
        inputs, _ = fit_format("text", texts, EmbeddingsAndWords(Embeddings(folder, 9), Tfidf()))
        return made(BagLinear(inputs.features, 2), inputs, 2), texts
    if kind == "encoder":
        save_classifier(folder, {0: "bad", 1: "good"})
        inputs, _ = fit_format("text", texts, Tokens(folder, 12))
        return made(TextEncoder(str(folder), 2), inputs, 2), texts
    inputs, _ = fit_format("text", texts, Tfidf())
    spec = BagLinear if kind == "linear" else BagMLP
    return made(spec(inputs.features, 2), inputs, 2), texts


def test_what_a_killed_export_left_is_removed(tmp_path: Path) -> None:
    save_student(tmp_path / "student", student_of("table", tmp_path)[0])
    left = tmp_path / "new" / ".m.onnx.tmp-0123abcd"
    left.mkdir(parents=True)
    (left / "model.onnx").write_bytes(b"half")
    assert run(tmp_path / "student", "--onnx", left.parent / "m.onnx").exit_code == 0
    assert [path.name for path in left.parent.iterdir()] == ["m.onnx"]


ENCODED = {
    "embeddings": ["input_ids", "attention_mask"],
    "embeddings and words": ["input_ids", "attention_mask", "indices", "values"],
    "image embeddings": ["pixel_values"],
}
KINDS = ["linear", "mlp", "encoder", "table", "image", *ENCODED]


@pytest.mark.parametrize(
    ("kind", "with_encoder"),
    [(kind, False) for kind in KINDS] + [(kind, True) for kind in ENCODED],
)
def test_onnx_runtime_says_the_same(tmp_path: Path, kind: str, with_encoder: bool) -> None:
    runtime = pytest.importorskip("onnxruntime", reason="the extra [onnx] is not installed")
    pytest.importorskip("onnxscript", reason="the extra [onnx] is not installed")
    from noisyteacher.pipeline.onnx_export import onnx_inputs

    student, inputs = student_of(kind, tmp_path / "encoder")
    save_student(tmp_path / "s", student)
    file = tmp_path / "student.onnx"
    more = ["--with-encoder"] * with_encoder
    result = run(tmp_path / "s", "--onnx", file, "--json", *more)
    assert result.exit_code == 0, (result.output, result.exception)
    summary = json.loads(result.stdout.splitlines()[-1])
    session = runtime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    assert [given.name for given in session.get_inputs()] == summary["inputs"]
    for some in (inputs, inputs[:1], inputs[:4]):
        logits = session.run(None, onnx_inputs(student, some, with_encoder=with_encoder))[0]
        np.testing.assert_allclose(logits, student.logits(some), atol=1e-4)
    if kind in ENCODED:
        words = [name for name in ENCODED[kind] if name in ("indices", "values")]
        assert summary["inputs"] == (ENCODED[kind] if with_encoder else ["embedding", *words])
    stored = json.loads(session.get_modelmeta().custom_metadata_map["classes"])
    assert tuple(stored) == student.classes


def test_without_onnx_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    student, _ = student_of("table", tmp_path)
    save_student(tmp_path / "s", student)
    result = run(tmp_path / "s", "--onnx", tmp_path / "x.onnx")
    assert isinstance(result.exception, InputError)
    assert "noisyteacher[onnx]" in str(result.exception)
    assert not (tmp_path / "x.onnx").exists()


def test_bad_input_is_one_sentence(tmp_path: Path) -> None:
    missing = run(tmp_path / "none", "--onnx", tmp_path / "x.onnx")
    assert isinstance(missing.exception, InputError)
    assert "no student folder" in str(missing.exception)
    (tmp_path / "x.onnx").write_text("precious")
    there = run(tmp_path / "none", "--onnx", tmp_path / "x.onnx")
    assert "exists already" in str(there.exception)


def test_what_a_killed_export_left_beside_its_file_is_removed(tmp_path: Path) -> None:
    (tmp_path / "x.onnx").write_text("complete")
    left = tmp_path / ".x.onnx.tmp-0123abcd"
    left.mkdir()
    there = run(tmp_path / "none", "--onnx", tmp_path / "x.onnx")
    assert "exists already" in str(there.exception)
    assert not left.exists()


def test_help_has_an_example() -> None:
    assert "noisyteacher export runs/mine/student --onnx" in " ".join(run("--help").output.split())


def test_a_student_without_an_encoder_is_told_so(tmp_path: Path) -> None:
    student, _ = student_of("table", tmp_path)
    save_student(tmp_path / "s", student)
    result = run(tmp_path / "s", "--onnx", tmp_path / "x.onnx", "--with-encoder")
    assert isinstance(result.exception, InputError)
    assert "Only a student on embeddings has an encoder" in str(result.exception)
    assert not (tmp_path / "x.onnx").exists()
