"""The Trainer's loss function, by itself and in real training."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from small_teacher import CLASSES, small_problem
from torch.nn import functional as F

from noisyteacher.core.errors import InputError, MissingIdsError
from noisyteacher.integrations.huggingface import TrainerLoss
from noisyteacher.integrations.torch_data import TeacherColumns, teacher_loss
from noisyteacher.losses import SLaMLoss

SMALL = small_problem()
HERE = Path(__file__).parent
NO_TRAINER = "the Trainer needs transformers and accelerate (extra: hf)"


def make_loss(k: int | None = None, **settings: object) -> TrainerLoss:
    labels = SMALL.labels(k=k)
    known = slice(0, SMALL.val.stop)
    columns = TeacherColumns(labels, SMALL.noise(labels), SMALL.ids()[known], SMALL.y[known])
    return TrainerLoss(columns, **settings)


def batch(loss: TrainerLoss, rows: slice) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    labels = torch.from_numpy(loss.label_column(SMALL.ids()[rows]))
    logits = torch.randn(len(labels), CLASSES, requires_grad=True)
    return {"logits": logits}, labels


@pytest.mark.parametrize("k", [None, 3])
def test_encoded_rows_get_the_slam_loss(k: int | None) -> None:
    loss = make_loss(k, base="taylor_ce", hard=True)
    outputs, labels = batch(loss, slice(50, 150))
    wanted = teacher_loss(
        SLaMLoss("taylor_ce", hard=True),
        outputs["logits"],
        loss.columns.join(SMALL.ids()[50:150]),
    )
    torch.testing.assert_close(loss(outputs, labels), wanted)
    torch.testing.assert_close(loss((outputs["logits"],), labels), wanted)
    torch.testing.assert_close(loss(outputs, labels.int()), wanted)


def test_true_classes_get_cross_entropy_and_ignored_rows_nothing() -> None:
    loss = make_loss()
    outputs, _ = batch(loss, slice(0, 40))
    y = torch.tensor(SMALL.y[:40])
    y[::4] = -100
    torch.testing.assert_close(loss(outputs, y), F.cross_entropy(outputs["logits"], y))


def test_parts_of_an_accumulated_batch_sum_to_the_whole() -> None:
    loss = make_loss()
    outputs, labels = batch(loss, slice(100, 160))
    labels[:7] = -100
    whole = loss(outputs, labels)
    items = (labels != -100).sum()
    parts = [
        loss({"logits": outputs["logits"][part]}, labels[part], num_items_in_batch=items)
        for part in (slice(0, 10), slice(10, 60))
    ]
    torch.testing.assert_close(sum(parts), whole)


@pytest.mark.parametrize("label", [-1, -999])
def test_labels_of_no_meaning_are_refused(label: int) -> None:
    with pytest.raises(InputError, match=f"found {label}"):
        make_loss()({"logits": torch.zeros(2, CLASSES)}, torch.tensor([0, label]))


def test_other_bad_labels_are_refused() -> None:
    loss, logits = make_loss(), torch.zeros(2, CLASSES)
    with pytest.raises(InputError, match="no labels"):
        loss({"logits": logits}, None)
    with pytest.raises(InputError, match="float32"):
        loss({"logits": logits}, torch.zeros(2))
    with pytest.raises(MissingIdsError, match="-3"):
        loss.label_column([-3])


def test_a_tiny_model_learns_and_is_evaluated(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason=NO_TRAINER)
    pytest.importorskip("accelerate", reason=NO_TRAINER)
    from run_trainer import make_trainer

    trainer = make_trainer(tmp_path, per_device_train_batch_size=32, num_train_epochs=8)
    trainer.train()
    metrics = trainer.evaluate()
    assert metrics["eval_accuracy"] > 0.6  # a guess is right a quarter of the time
    predicted = trainer.predict(trainer.eval_dataset)
    logits, y = torch.from_numpy(predicted.predictions), torch.from_numpy(predicted.label_ids)
    assert metrics["eval_loss"] == pytest.approx(float(F.cross_entropy(logits, y)), abs=1e-2)


def run_two_processes(file: Path, batch_size: int, accumulation: int) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    command = [sys.executable, HERE / "run_trainer.py", file, str(batch_size), str(accumulation)]
    shared = os.environ | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2"}
    started = [
        subprocess.Popen(command, env=shared | {"RANK": rank, "LOCAL_RANK": rank})
        for rank in ("0", "1")
    ]
    assert [process.wait(timeout=180) for process in started] == [0, 0]


def test_accumulation_and_two_processes_train_like_one_batch(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason=NO_TRAINER)
    pytest.importorskip("accelerate", reason=NO_TRAINER)
    import run_trainer

    run_trainer.main(str(tmp_path / "whole"), "24", "1")
    run_trainer.main(str(tmp_path / "accumulated"), "8", "3")
    run_two_processes(tmp_path / "two", 6, 2)
    whole, *others = (load_file(tmp_path / name) for name in ("whole", "accumulated", "two"))
    before = run_trainer.tiny_model().state_dict()
    assert any(not torch.allclose(before[key], value, atol=1e-2) for key, value in whole.items())
    for other in others:
        for key, value in whole.items():
            torch.testing.assert_close(other[key], value, rtol=1e-4, atol=1e-5, msg=key)
