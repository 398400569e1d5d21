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

    The baseline that any use of the teacher must beat. ``use_val=False`` leaves V out: the student
    of A alone.
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
    """The first ``order`` terms of the Taylor series of cross-entropy: wrong labels pull less.

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
    """Poly-1: cross-entropy with another weight on its first polynomial term.

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
    """Gold labels, then the student's own labels of the pool rows that it is sure of.

    The student is solved on the gold rows, labels every pool row whose top class has a probability
    of at least ``threshold``, and is solved again with these rows, until no row is added or
    ``rounds`` are done. It asks no teacher. Linear students alone are trained like this;
    ``Consistency(None)`` is its counterpart for networks.

    With ``align``, probabilities are first multiplied by the shares of the classes among the gold
    rows over the mean probabilities of the pool rows. A student of few gold rows is sure of its
    favorite class first, and would otherwise give most of the pool to it. This expects a pool with
    the class shares of the gold rows; without it, the method is scikit-learn's
    ``SelfTrainingClassifier``.
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
