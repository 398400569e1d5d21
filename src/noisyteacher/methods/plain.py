"""Plain methods: gold labels alone, and a base loss against the teacher's label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from noisyteacher import losses
from noisyteacher.core.errors import InputError
from noisyteacher.io.ids import are_among
from noisyteacher.methods.batch import (
    Batch,
    Columns,
    Labels,
    Modules,
    Noise,
    Output,
    Rows,
    StudentModel,
    all_rows,
    gold_losses,
    keep_rows,
    weighted_mean,
)
from noisyteacher.methods.method import Grid, Method, PlainMethod


@dataclass(frozen=True)
class GoldOnly(Method):
    """Cross-entropy on A and V, for as many optimizer steps as vanilla distillation takes.

    This is the baseline that a method with a teacher must beat. ``use_val=False`` trains on A
    alone.
    """

    use_val: bool = True

    needs: ClassVar[frozenset[str]] = frozenset()
    formula: ClassVar[str] = "ce(y, f) on gold rows"
    reference: ClassVar[str] = "baseline"

    def prepare(self, rows: Rows, labels: Labels, noise: Noise) -> Columns:
        keep = rows.gold
        if not self.use_val:
            keep = keep & ~are_among(rows.ids, rows.val_ids)
        return keep_rows(all_rows(rows), keep)

    def loss(self, output: Output, batch: Batch, modules: Modules, progress: Tensor) -> Tensor:
        return weighted_mean(gold_losses(output.logits, batch.y), batch)


@dataclass(frozen=True)
class Vanilla(PlainMethod):
    """Vanilla distillation: cross-entropy with the teacher's label or, ``hard``, its top class."""

    hard: bool = False

    formula: ClassVar[str] = "ce(ys, f)"
    reference: ClassVar[str] = "Hinton et al. 2015"


@dataclass(frozen=True)
class TaylorCE(PlainMethod):
    """The first ``order`` terms of the Taylor series of cross-entropy: wrong labels count less.

    It is also a base loss: ``SLaM(base=TaylorCE(2))``.
    """

    order: int = 2
    hard: bool = False

    positional: ClassVar[tuple[str, ...]] = ("order",)  # as it reads inside SLaM(base=...)
    formula: ClassVar[str] = "Σ_j ys_j Σ_{i≤order} (1 − f_j)^i / i"
    reference: ClassVar[str] = "Feng et al. IJCAI 2020"
    unverified: ClassVar[str] = "read as an abstract; the paper's CIFAR grid is not stated"
    other_grids: ClassVar[dict[str, Grid]] = {
        "imagenet": {"order": (1, 2, 3, 4, 5, 6, 10, 20, 50, 80, 100)}
    }

    def base_loss(self) -> losses.BaseLoss:
        return losses.TaylorCE(self.order)


@dataclass(frozen=True)
class PolyLoss(PlainMethod):
    """Poly-1: cross-entropy with a different weight of its first polynomial term.

    It is also a base loss: ``SLaM(base=PolyLoss(2.0))``, printed as ``Poly1(2.0)``.
    """

    epsilon: float = 2.0
    hard: bool = False

    formula: ClassVar[str] = "ce(ys, f) + ε Σ_j ys_j (1 − f_j)"
    reference: ClassVar[str] = "Leng et al. ICLR 2022"
    grid: ClassVar[Grid] = {"epsilon": (-1.0, -0.8, -0.6, -0.4, -0.2, 0.5, 1.0, 2.0, 50.0, 100.0)}
    other_grids: ClassVar[dict[str, Grid]] = {
        "imagenet": {"epsilon": (1.0, 2.0, 50.0, 100.0)},
        "imdb": {"epsilon": (-1.0, -0.8, -0.6, -0.4, -0.2, 0.5, 1.0, 2.0)},
    }

    def base_loss(self) -> losses.BaseLoss:
        return losses.Poly1(self.epsilon)


@dataclass(frozen=True)
class GCE(PlainMethod):
    """Generalized cross-entropy: cross-entropy for q → 0, the robust absolute error at q = 1.

    ``TruncatedGCE`` is its truncated form.
    """

    q: float = 0.7
    hard: bool = False

    formula: ClassVar[str] = "Σ_j ys_j (1 − f_j^q) / q"
    reference: ClassVar[str] = "Zhang & Sabuncu 2018"

    def base_loss(self) -> losses.BaseLoss:
        return losses.GCE(self.q)


@dataclass(frozen=True)
class SelfTraining(GoldOnly):
    """Train on the gold labels, then also on the student's own confident labels of pool rows.

    The student is trained on the gold rows, labels every pool row whose top class has a probability
    of at least ``threshold``, and is trained again with these rows, until no row is added or
    ``rounds`` are done. It needs no teacher, and is only available for linear students;
    ``Consistency(None)`` is its counterpart for networks.

    With ``align``, the probabilities are first multiplied by the class shares of the gold rows and
    divided by the mean probabilities over the pool. Otherwise, a student trained on few gold rows,
    which becomes confident of its most frequent class first, would assign most of the pool to that
    class. This assumes that gold rows and pool have similar class shares. Without ``align``, the
    method is scikit-learn's ``SelfTrainingClassifier``.
    """

    threshold: float = 0.8
    rounds: int = 10
    align: bool = True

    whole_pool: ClassVar[bool] = True
    formula: ClassVar[str] = "ce(y, f) on gold rows, ce(argmax f', f) where max f' ≥ threshold"
    reference: ClassVar[str] = "Yarowsky 1995, Berthelot et al. ICLR 2020"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check(0 < self.threshold <= 1, "threshold", "above 0 and at most 1")
        self._check(self.rounds >= 1, "rounds", "at least 1")

    def modules(self, student: StudentModel, columns: Columns) -> nn.Module | None:
        raise InputError(
            f"{self!r} trains linear students only; for a network use Consistency(None)."
        )
