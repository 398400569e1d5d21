"""The Lightning mixin, by itself and in a real ``Trainer``."""

from __future__ import annotations

import pytest
import torch
from small_teacher import CLASSES, FEATURES, small_problem
from torch import nn
from torch.utils.data import DataLoader, StackDataset, TensorDataset

from noisyteacher.integrations.lightning import TeacherSteps
from noisyteacher.integrations.torch_data import JoinTeacher, TeacherColumns, teacher_loss
from noisyteacher.losses import SLaMLoss

SMALL = small_problem()


def joined_loader(k: int | None = None) -> DataLoader:
    labels = SMALL.labels(k=k)
    known = slice(0, SMALL.val.stop)
    columns = TeacherColumns(labels, SMALL.noise(labels), SMALL.ids()[known], SMALL.y[known])
    data = StackDataset(SMALL.ids(), torch.from_numpy(SMALL.x[: SMALL.pool.stop]))
    return DataLoader(data, batch_size=64, shuffle=True, collate_fn=JoinTeacher(columns))


class Plain(TeacherSteps, nn.Module):
    """The mixin without Lightning: ``log`` keeps what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(FEATURES, CLASSES)
        self.logged: dict[str, torch.Tensor] = {}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x)

    def log(self, name: str, value: torch.Tensor, **options: object) -> None:
        self.logged[name] = value


@pytest.mark.parametrize("k", [None, 3])
def test_steps_are_the_losses_of_their_batches(k: int | None) -> None:
    module = Plain()
    x, teacher = next(iter(joined_loader(k)))
    loss = module.training_step((x, teacher), 0)
    assert loss == teacher_loss(SLaMLoss(), module(x), teacher)
    assert module.logged["train_loss"] == loss.detach()
    y = torch.from_numpy(SMALL.y[:64])
    module.validation_step((x, y), 0)
    assert module.logged["val_loss"] == nn.functional.cross_entropy(module(x), y)
    assert module.logged["val_accuracy"] == (module(x).argmax(1) == y).float().mean()


def test_a_student_learns_under_lightning() -> None:
    lightning = pytest.importorskip(
        "lightning", reason="Lightning is not installed (extra: lightning)"
    )

    class Student(TeacherSteps, lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Linear(FEATURES, CLASSES)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.body(x)

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.Adam(self.parameters(), 0.05)

    lightning.seed_everything(0, verbose=False)
    test = TensorDataset(
        torch.from_numpy(SMALL.x[SMALL.test]), torch.from_numpy(SMALL.y[SMALL.test])
    )
    trainer = lightning.Trainer(
        accelerator="cpu",
        max_epochs=8,
        accumulate_grad_batches=2,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Student(), joined_loader(), DataLoader(test, batch_size=300))
    teacher_accuracy = (SMALL.probs.argmax(1) == SMALL.y)[SMALL.test].mean()
    assert trainer.callback_metrics["val_accuracy"] > teacher_accuracy + 0.05
    assert torch.isfinite(trainer.callback_metrics["train_loss"])
