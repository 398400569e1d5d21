"""Lightning: training and validation steps for a ``LightningModule`` of yours.

    class Student(TeacherSteps, lightning.LightningModule):
        def forward(self, x): ...
        def configure_optimizers(self): ...

The training loader joins the teacher's columns with ``JoinTeacher``; the validation loader gives
pairs (x, y) as always.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, cast

from torch import Tensor, nn
from torch.nn import functional as F

from noisyteacher.integrations.torch_data import teacher_loss
from noisyteacher.losses import SLaMLoss


class TeacherSteps:
    """A mixin, named before ``LightningModule``; needs no import of Lightning itself.

    ``teacher_loss`` is the loss of the training step; a subclass may name another ``SLaMLoss``.
    It logs ``train_loss``, ``val_loss`` and ``val_accuracy``, the latter two over all processes.
    """

    teacher_loss: ClassVar[SLaMLoss] = SLaMLoss()
    log: Callable[..., None]

    def training_step(self, batch: tuple[Any, dict[str, Tensor]], batch_idx: int) -> Tensor:
        """The loss of a batch of ``JoinTeacher``: (x, columns)."""
        x, teacher = batch
        logits = self._logits(x)
        loss = teacher_loss(self.teacher_loss, logits, teacher)
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
