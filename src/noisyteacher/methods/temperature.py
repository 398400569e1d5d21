"""Temperature: soften teacher and student alike, gold rows and pool rows each their own way."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from noisyteacher.core.errors import InputError, MissingIdsError
from noisyteacher.labels import TeacherLabels
from noisyteacher.methods.base import Batch, Columns, Grid, Method, Output, Rows
from noisyteacher.methods.targets import TargetMethod, dense_labels, given
from noisyteacher.methods.vanilla import Vanilla
from noisyteacher.methods.wrapper import Wrapper, inner_methods
from noisyteacher.noise import TeacherNoise

_GRID = (0.01, 0.1, 0.5, 0.8, 1.0, 2.0, 5.0, 10.0, 100.0)


@dataclass(frozen=True, repr=False)
class Temperature(Wrapper):
    """Divide the student's logits, and the teacher's, by t_a on gold rows and t_b on pool rows.

    Trust and shortlists come from the labels as they are, at temperature 1. One-hot targets stay
    one-hot. The student is evaluated at temperature 1.

    Args:
        t_a, t_b: the temperatures of gold and pool rows.
        squared: multiply each row's loss by its squared temperature, as Hinton does.
        a_target: what gold rows aim at, the ``"true"`` label or the ``"teacher"``'s tempered one
            (then the teacher must have labelled A and V too).
    """

    t_a: float
    t_b: float
    squared: bool = False
    a_target: str = "true"
    inner: Method = Vanilla()  # noqa: RUF009  frozen

    formula: ClassVar[str] = "inner at softmax(z / t), ys^(1/t) / Σ; t = t_A on gold, t_B on pool"
    reference: ClassVar[str] = "Hinton et al. 2015, as in the SLaM paper"
    unverified: ClassVar[str] = "the factor t² and the target of gold rows in the paper's runs"
    grid: ClassVar[Grid] = {"t_a": _GRID, "t_b": _GRID}

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check(self.t_a > 0, "t_a", "above 0")
        self._check(self.t_b > 0, "t_b", "above 0")
        self._check(self.a_target in ("true", "teacher"), "a_target", '"true" or "teacher"')
        if self.a_target == "teacher" and not isinstance(self._innermost(), TargetMethod):
            raise InputError(
                f'{type(self._innermost()).__name__} has no target that a_target="teacher" of '
                "Temperature could replace."
            )

    def prepare(
        self, rows: Rows, labels: TeacherLabels | None, noise: TeacherNoise | None
    ) -> Columns:
        columns = super().prepare(rows, labels, noise)
        values, gold = columns.values, columns.y >= 0
        innermost = self._innermost()
        hard = isinstance(innermost, TargetMethod) and innermost.hard
        if "target" in values and not hard:
            values["target"][~gold] = temper(values["target"][~gold], self.t_b)
        if "top_prob" in values and not hard:
            others = rows.classes - values["top_prob"].shape[1]
            values["top_prob"][~gold], values["tail"][~gold] = temper_top(
                values["top_prob"][~gold], values["tail"][~gold], others, self.t_b
            )
        if self.a_target == "teacher":
            self._aim_gold_at_teacher(columns, rows, given(self, labels), hard)
        return columns

    def _innermost(self) -> Method:
        *_, innermost = inner_methods(self)
        return innermost

    def _aim_gold_at_teacher(
        self, columns: Columns, rows: Rows, labels: TeacherLabels, hard: bool
    ) -> None:
        values, gold = columns.values, columns.y >= 0
        try:
            said = labels.take(rows.ids[columns.index[gold].numpy()])
        except MissingIdsError as error:
            raise MissingIdsError(
                f"{self!r} wants the teacher's labels of gold rows too, but there are "
                f'{str(error).rstrip(".")}: label A as well, or take a_target="true".'
            ) from error
        if "target" in values:
            target = dense_labels(said, hard)
            values["target"][gold] = target if hard else temper(target, self.t_a)
        else:
            top, tail = torch.from_numpy(said.topk_prob), torch.from_numpy(said.tail)
            if not hard:
                top, tail = temper_top(top, tail, rows.classes - said.k, self.t_a)
            values["top_index"][gold] = torch.from_numpy(said.topk_index.astype(np.int32))
            values["top_prob"][gold], values["tail"][gold] = top, tail

    def loss(
        self, output: Output, batch: Batch, modules: nn.Module | None, progress: Tensor
    ) -> Tensor:
        t = torch.where(batch.gold, float(self.t_a), float(self.t_b))
        strong = None if output.strong is None else output.strong.float() / t[:, None]
        tempered = replace(output, logits=output.logits.float() / t[:, None], strong=strong)
        if self.squared:
            batch = replace(batch, weight=batch.weight * t.square())
        return super().loss(tempered, batch, modules, progress)


def temper(probs: Tensor, temperature: float) -> Tensor:
    """(n, L) probabilities to the power 1 / temperature, normalised: softmax(logits / t).

    What is impossible stays so: a thousand classes at a floor of 1e-12 would share half of a
    one-hot label at temperature 4.
    """
    return (probs.log() / temperature).softmax(1)


def temper_top(
    prob: Tensor, tail: Tensor, others: int, temperature: float
) -> tuple[Tensor, Tensor]:
    """``temper`` on stored labels: (n, K) top and (n,) mass spread over ``others`` more classes."""
    each = (tail / others)[:, None]
    log_all = torch.cat([prob, each], 1).log() / temperature
    log_all[:, -1] += np.log(others)
    tempered = log_all.softmax(1)
    return tempered[:, :-1], tempered[:, -1]
