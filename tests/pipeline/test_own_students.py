"""Networks of the user's own, from ``distill`` and ``bench`` to a folder, ONNX and back."""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
import torch
from torch import Tensor, nn

import noisyteacher as nt
from command_line import run, run_well
from noisyteacher.bench import run_recipe
from noisyteacher.bench.recipes import find_recipe
from noisyteacher.core.errors import InputError
from noisyteacher.core.integrity import sealed_json
from noisyteacher.data import HashedNgrams, Tfidf, Tokens
from noisyteacher.data.input_format import fit_format, rgb_images
from noisyteacher.labels import TeacherLabels
from noisyteacher.methods import VID, GoldOnly, SLaM
from noisyteacher.models import MLP, CustomModel, TextEncoder
from noisyteacher.pipeline import Student, load_student, save_student
from noisyteacher.pipeline.defaults import student_for, training_for
from noisyteacher.pipeline.onnx_export import export_onnx, onnx_inputs
from noisyteacher.train import Adam, TrainConfig
from tiny_encoder import save_classifier
from user_files import MOODS, digits, noisy_probs, reviews, write_digit_folders

# Small sets split V and S off the gold rows, and say so.
pytestmark = pytest.mark.filterwarnings("ignore::noisyteacher.core.errors.NoisyTeacherWarning")
QUICK = TrainConfig(4, 32, Adam(0.02), steps_per_epoch=15)
DIGITS = ("zero", "one", "two")


class Net(nn.Module):
    def __init__(self, classes: int = 3) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.head = nn.Linear(8 * 64, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.norm(self.conv(x)).relu().flatten(1))


class TableNet(nn.Sequential):
    def __init__(self, features: int = 64, classes: int = 10) -> None:
        super().__init__(nn.Linear(features, 32), nn.ReLU(), nn.Linear(32, classes))


def task(kind: str = "image") -> dict[str, Any]:
    """Digits as images or as a table, or reviews: 80 gold rows that the teacher labeled too."""
    if kind == "text":
        texts, y = reviews(300)
        inputs, classes = np.array(texts), MOODS
    else:
        images, y = digits(300)
        inputs = images if kind == "image" else images.reshape(300, -1).astype(np.float32)
        classes = DIGITS
    ids = np.arange(300)
    return {
        "gold": (ids[:80], inputs[:80], np.array(classes)[y[:80]]),
        "pool": (ids[80:], inputs[80:]),
        "labels": TeacherLabels.from_probs(ids, noisy_probs(y, len(classes), 0.85), classes),
    }


def distill(student: Any, kind: str = "image", **more: Any) -> Student:
    settings: dict[str, Any] = {"method": SLaM(), "training": QUICK, "flip": False} | more
    return nt.distill(student, **task(kind), **settings, device="cpu")


def accuracy(student: Student) -> float:
    images, y = digits(500)
    return float(np.mean(student.predict(images[300:]) == np.array(DIGITS)[y[300:]]))


def check_onnx(student: Student, path: Path, inputs: Any) -> None:
    runtime = pytest.importorskip("onnxruntime", reason="the extra [onnx] is not installed")
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    for some in (inputs, inputs[:1], inputs[:4]):
        logits = session.run(None, onnx_inputs(student, some))[0]
        np.testing.assert_allclose(logits, student.logits(some), atol=1e-4)


def test_a_network_goes_from_distill_to_a_folder_to_onnx(tmp_path: Path) -> None:
    student = distill(Net, out=tmp_path / "run")
    assert isinstance(student.spec, CustomModel)
    assert accuracy(student) > 0.8
    folder, images = tmp_path / "run" / "student", digits(9)[0]
    again = load_student(folder, student=Net)
    np.testing.assert_array_equal(again.logits(images), student.logits(images))
    own = Net()
    own.load_state_dict(again.state)  # the names in the file are the user's own
    assert isinstance(again.network.module, Net)
    check_onnx(again, export_onnx(again, tmp_path / "student.onnx"), images)
    rows = (tmp_path / "run" / "results.jsonl").read_bytes()
    distill(Net, out=tmp_path / "run")
    assert (tmp_path / "run" / "results.jsonl").read_bytes() == rows


@pytest.mark.parametrize("other", [Net(), partial(Net, 3), lambda: Net()])
def test_a_run_is_resumed_with_the_same_network_only(tmp_path: Path, other: Any) -> None:
    short = replace(QUICK, epochs=1, steps_per_epoch=2)
    distill(Net, out=tmp_path, training=short, method=GoldOnly())
    if isinstance(other, partial):  # the same class and the same start
        distill(other, out=tmp_path, training=short, method=GoldOnly())
        return
    with pytest.raises(InputError, match="holds a run with another student"):
        distill(other, out=tmp_path, training=short, method=GoldOnly())


def test_a_module_is_left_as_it_was_and_is_where_training_starts() -> None:
    module = Net()
    with torch.no_grad():
        module.head.bias += torch.tensor([0.0, 0.0, 50.0])
    before = {name: value.clone() for name, value in module.state_dict().items()}
    barely = replace(QUICK, epochs=1, steps_per_epoch=1)
    student = distill(module, training=barely, method=GoldOnly())
    assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())
    assert set(student.predict(digits(20)[0])) == {"two"}


def test_bench_trains_it_once(tmp_path: Path) -> None:
    recipe = replace(
        find_recipe("digits", student=TableNet),  # type: ignore[arg-type]
        methods=(GoldOnly(), SLaM()),
        trials=2,
        teacher_training=QUICK,
        student_training=QUICK,
        pretraining=None,
    )
    rows = run_recipe(recipe, tmp_path, device="cpu", quiet=True)
    run_well("report", tmp_path)
    assert sorted(row.method for row in rows) == ["GoldOnly()"] * 2 + ["SLaM()"] * 2
    stored = (tmp_path / "results.jsonl").read_bytes()
    assert run_recipe(recipe, tmp_path, device="cpu", quiet=True) == rows
    assert (tmp_path / "results.jsonl").read_bytes() == stored
    other = replace(recipe, student=TableNet())
    with pytest.raises(InputError, match="holds a run with another student"):
        run_recipe(other, tmp_path, device="cpu", quiet=True)


def test_bench_refuses_what_does_not_fit_before_the_teacher_is_trained(tmp_path: Path) -> None:
    recipe = find_recipe("digits", student=partial(TableNet, 64, 7))  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"shape \(2, 7\) .*10 classes it must be \(2, 10\)"):
        run_recipe(recipe, tmp_path / "run", device="cpu", quiet=True)
    recipe = replace(recipe, student=TableNet, methods=(VID(),))
    with pytest.raises(InputError, match=r"VID\(\) needs the student's embedding"):
        run_recipe(recipe, tmp_path / "run", device="cpu", quiet=True)
    assert not (tmp_path / "run" / "recipe.json").exists()


@pytest.mark.parametrize(
    ("student", "told"),
    [
        (partial(Net, 4), r"Net gives an output of shape \(2, 4\) .*it must be \(2, 3\)"),
        (TableNet, r"TableNet fails on a batch of shape \(2, 3, 8, 8\)"),
        (MLP, r"MLP failed to make a network; it is called without arguments"),
        (7, r"as a function without arguments that makes one, not as 7"),
    ],
)
def test_what_does_not_fit_is_refused_before_training(
    tmp_path: Path, student: Any, told: str
) -> None:
    with pytest.raises(InputError, match=told):
        distill(student, out=tmp_path / "run")
    assert not (tmp_path / "run" / "recipe.json").exists()


def hugging_face(**changes: Any) -> nn.Module:
    transformers = pytest.importorskip("transformers")
    config = transformers.ViTConfig(
        image_size=8,
        patch_size=4,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        num_labels=3,
        **changes,
    )
    model: nn.Module = transformers.ViTForImageClassification(config)
    return model


def resnet() -> nn.Module:
    transformers = pytest.importorskip("transformers")
    config = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic", num_labels=3
    )
    model: nn.Module = transformers.ResNetForImageClassification(config)
    return model


@pytest.mark.parametrize("factory", [hugging_face, resnet])
def test_a_hugging_face_image_classifier(tmp_path: Path, factory: Any) -> None:
    student = distill(factory, out=tmp_path / "run", method=GoldOnly())
    assert accuracy(student) > 0.5
    again = load_student(tmp_path / "run" / "student", student=factory)
    images = digits(9)[0]
    np.testing.assert_array_equal(again.logits(images), student.logits(images))
    if factory is hugging_face:
        check_onnx(again, export_onnx(again, tmp_path / "student.onnx"), images)


def test_a_timm_model(tmp_path: Path) -> None:
    timm = pytest.importorskip("timm", reason="timm is not installed")
    factory = partial(timm.create_model, "test_resnet", pretrained=False, num_classes=3)
    student = distill(factory, out=tmp_path / "run", method=GoldOnly())
    again = load_student(tmp_path / "run" / "student", student=factory)
    images = digits(9)[0]
    np.testing.assert_array_equal(again.logits(images), student.logits(images))
    check_onnx(again, export_onnx(again, tmp_path / "student.onnx"), images)


# -- texts ----------------------------------------------------------------------------------------


def test_a_network_reads_texts_as_tfidf_rows(tmp_path: Path) -> None:
    barely = replace(QUICK, epochs=1)
    distill(
        partial(nn.Linear, 500, 2), "text", featurizer=Tfidf(500), out=tmp_path, training=barely
    )
    lines = (tmp_path / "results.jsonl").read_bytes().splitlines()
    assert "SLaM()" in [orjson.loads(line)["method"] for line in lines]
    with pytest.raises(InputError, match="at most 50000 words, and this featurizer has 262144"):
        distill(partial(nn.Linear, 2**18, 2), "text", featurizer=HashedNgrams())


def test_a_text_student_survives_its_folder_and_onnx(tmp_path: Path) -> None:
    texts, _ = reviews(60)
    inputs, _ = fit_format("text", texts, Tfidf(300))
    spec = student_for(partial(nn.Linear, 300, 2), inputs, 2)
    student = Student(spec, spec.build().state_dict(), MOODS, inputs)
    save_student(tmp_path / "s", student)
    again = load_student(tmp_path / "s", student=partial(nn.Linear, 300, 2))
    np.testing.assert_array_equal(again.logits(texts), student.logits(texts))
    check_onnx(again, export_onnx(again, tmp_path / "s.onnx"), texts)


class Fixed(TableNet):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + torch.zeros(len(x), 1)


class Branches(TableNet):
    def forward(self, x: Tensor) -> Tensor:
        logits = super().forward(x)
        return logits if float(logits.sum()) > 0 else 2 * logits


@pytest.mark.parametrize("kind", [Fixed, Branches])
def test_what_onnx_cannot_express_is_refused_in_one_sentence(tmp_path: Path, kind: Any) -> None:
    pytest.importorskip("onnxscript", reason="the extra [onnx] is not installed")
    inputs, _ = fit_format("table", np.eye(64, dtype=np.float32))
    spec = CustomModel(kind, classes=10)
    student = Student(spec, spec.build().state_dict(), tuple("0123456789"), inputs)
    with pytest.raises(InputError, match=rf"{kind.__name__}.* cannot be written as ONNX"):
        export_onnx(student, tmp_path / "s.onnx")
    assert not (tmp_path / "s.onnx").exists()


def test_an_encoder_of_the_users_own_reads_tokens(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    folder = save_classifier(tmp_path / "encoder", {0: "bad", 1: "good"})
    texts, _ = reviews(20)
    inputs, tensors = fit_format("text", texts, Tokens(folder, 12))
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder)
    spec = student_for(model, inputs, 2)
    assert isinstance(spec, CustomModel)
    network = spec.build()
    network.check(tensors)
    torch.testing.assert_close(network.eval()(tensors), model.eval()(*tensors).logits)
    assert training_for("text", spec, 1000).optimizer == Adam(3e-5, weight_decay=0.01)


# -- the folder and the command line --------------------------------------------------------------


def test_loading_a_folder_imports_no_code_that_it_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "planted.py").write_text("raise SystemExit('ran')\n")
    monkeypatch.syspath_prepend(tmp_path)
    inputs, _ = fit_format("image", rgb_images(digits(9)[0]))
    spec = CustomModel(Net, classes=3)
    save_student(tmp_path / "s", Student(spec, spec.build().state_dict(), DIGITS, inputs))
    path = tmp_path / "s" / "config.json"
    config = orjson.loads(path.read_bytes())
    assert config["model"]["factory"].endswith("test_own_students:Net")
    config["model"]["factory"] = "planted:net"
    del config["sha256"]
    path.write_bytes(sealed_json(config))
    with pytest.raises(InputError, match=r"network of your own, 'planted:net'.* as student="):
        load_student(tmp_path / "s")
    load_student(tmp_path / "s", student=Net)
    load_student(tmp_path / "s", student=Net())
    assert "planted" not in sys.modules
    with pytest.raises(InputError, match=r"do not fit student=: .*head"):
        load_student(tmp_path / "s", student=partial(Net, 5))


@pytest.mark.parametrize("part", ["tokenizer", "model"])
def test_code_beside_a_text_encoder_is_never_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    """Transformers would ask on stdin whether to run it."""
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    folder = save_classifier(tmp_path / "encoder", {0: "bad", 1: "good"})
    marker = tmp_path / "ran"
    (folder / "payload.py").write_text(f"open({str(marker)!r}, 'w').close()\n")
    file = folder / ("tokenizer_config.json" if part == "tokenizer" else "config.json")
    config = orjson.loads(file.read_bytes())
    if part == "tokenizer":
        config |= {
            "tokenizer_class": "Payload",
            "auto_map": {"AutoTokenizer": [None, "payload.Payload"]},
        }
    else:
        config |= {
            "model_type": "payload",
            "auto_map": {"AutoConfig": "payload.Payload"},
        }
    file.write_bytes(orjson.dumps(config))
    load = partial(Tokens, folder) if part == "tokenizer" else TextEncoder(str(folder), 2).build
    with suppress(InputError):  # where there is no other code to do without it
        load()
    assert not marker.exists()


CODE = """
import torch.nn as nn

def net():
    return nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(256, 3))

number = 3
"""


def test_the_command_line_imports_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxscript", reason="the extra [onnx] is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "my_models", raising=False)
    Path("my_models.py").write_text(CODE)
    write_digit_folders(tmp_path)
    where = ("--gold", "gold", "--pool", "pool", "--labels", "labels", "--out", "run")
    more = ("--epochs", "1", "--quick", "--no-flip")
    run_well("distill", *where, *more, "--student", "my_models:net")
    folder = tmp_path / "run" / "student"
    config = orjson.loads((folder / "config.json").read_bytes())
    assert config["model"]["factory"] == "my_models:net"
    assert "--student module:name" in str(run("export", folder, "--onnx", "s.onnx").exception)
    run_well("export", folder, "--student", "my_models:net", "--onnx", "s.onnx")
    run_well("label", folder, "pool", "--student", "my_models:net", "--out", "again")
    assert len(TeacherLabels.open("again")) == 80
    run_well("report", "run")
    for name, told in (
        ("my_models:nothing", "there is no nothing in it"),
        ("my_models:number", "not as 3"),
        ("no_such_module:net", "no_such_module cannot be imported"),
        ("my_models:", "named package.module:name, not 'my_models:'"),
    ):
        refused = run("distill", *where, "--student", name)
        assert told in str(refused.exception), name
