"""Lightning: training and validation steps for a ``LightningModule`` of yours.

    class Student(TeacherSteps, lightning.LightningModule):
        def forward(self, x): ...
        def configure_optimizers(self): ...

The training loader joins the teacher's columns with ``JoinTeacher``; the validation loader gives
pairs (x, y) as always.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from torch import Tensor, nn
from torch.nn import functional as F

from noisyteacher.integrations.torch_data import teacher_loss
from noisyteacher.losses import SLaMLoss


class TeacherSteps:
    """A mixin, named before ``LightningModule``; needs no import of Lightning itself.

    It logs ``train_loss``, ``val_loss`` and ``val_accuracy``, the latter two over all processes.
    """

    log: Callable[..., None]

    def student_loss(self, logits: Tensor, teacher: dict[str, Tensor]) -> Tensor:
        """The loss of a training batch; override it for other settings of ``SLaMLoss``."""
        return teacher_loss(SLaMLoss(), logits, teacher)

    def training_step(self, batch: tuple[Any, dict[str, Tensor]], batch_idx: int) -> Tensor:
        """The loss of a batch of ``JoinTeacher``: (x, columns)."""
        x, teacher = batch
        logits = self._logits(x)
        loss = self.student_loss(logits, teacher)
        self.log("train_loss", loss.detach(), batch_size=len(logits))
        return loss

    def validation_step(self, batch: tuple[Any, Tensor], batch_idx: int) -> None:
        """Cross-entropy and accuracy on a batch (x, true classes)."""
        x, y = batch
        logits = self._logits(x)
        accuracy = (logits.argmax(1) == y).float().mean()
        whole = {"batch_size": len(y), "sync_dist": True, "prog_bar": True}
        self.log("val_loss", F.cross_entropy(logits, y), **whole)
        self.log("val_accuracy", accuracy, **whole)

    def _logits(self, x: Any) -> Tensor:
        # Called as a module, so that its hooks run.
        return cast(Tensor, cast(nn.Module, self)(x))
