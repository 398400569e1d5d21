"""The students that are tried, gold only always among them, and what came out of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from noisyteacher.core.errors import InputError
from noisyteacher.core.files import slug
from noisyteacher.data.dataset import Kind
from noisyteacher.methods import (
    PRETRAINED,
    SOFT_LABELS,
    Calibrated,
    Consistency,
    ForwardCorrection,
    GoldOnly,
    Method,
    SLaM,
    TaylorCE,
    Vanilla,
)
from noisyteacher.noise import TeacherNoise
from noisyteacher.pipeline.student import Student
from noisyteacher.pipeline.task import Task
from noisyteacher.runs import Row
from noisyteacher.train import TrainConfig

FLOOR = "logistic regression"
# Up to so many, a few hundred rows of V tell how often each class is taken for each other.
_FEW_CLASSES = 10


@dataclass(frozen=True)
class Candidate:
    """A student to train; ``method`` None is the plain logistic regression on gold labels."""

    method: Method | None
    generation: int = 1

    @property
    def name(self) -> str:
        """The method's name, in tables and in words."""
        name = FLOOR if self.method is None else repr(self.method)
        return name if self.generation == 1 else f"{name}, generation {self.generation}"

    @property
    def file_name(self) -> str:
        return slug(self.name)

    @property
    def uses_teacher(self) -> bool:
        return self.method is not None and SOFT_LABELS in self.method.needs


def default_slam(kind: Kind, classes: int) -> SLaM:
    """Teachers of texts and tables have favourite classes; images do best with soft labels."""
    # With two classes every k is 2; written as the audit writes it, it is not tried twice.
    k = 2 if classes == 2 else "auto"
    return SLaM(k=k) if kind == "image" else SLaM(hard=True, k=k, per_class=True)


def choose_candidates(
    kind: Kind,
    classes: int,
    recommended: Method,
    *,
    methods: Sequence[Method] = (),
    compare: bool = False,
    quick: bool = False,
) -> list[Candidate]:
    """Gold only first, then the floor for texts and tables, then the ways to use the teacher.

    ``methods`` the user names replace the recommended one and the default; ``quick`` keeps only the
    recommended one; ``compare`` adds the rivals.
    """
    slam = default_slam(kind, classes)
    wanted: list[Method] = [*methods]
    if not methods:
        wanted = [recommended]
        if not quick:
            wanted.append(Consistency(slam))
    if compare:
        wanted += [Vanilla(), slam, Calibrated(TaylorCE(2)), Consistency(None)]
        if kind != "image":
            wanted.append(Consistency(Calibrated(TaylorCE(2))))
        if classes <= _FEW_CLASSES:
            wanted.append(Consistency(ForwardCorrection()))
    for method in wanted:
        if PRETRAINED in method.needs:
            raise InputError(
                f"{method!r} needs a student pre-trained on gold; train it with `noisyteacher "
                "bench`."
            )
    floor = [Candidate(None)] if kind != "image" else []
    # The order decides ties on S: whatever uses the teacher must be better, not as good.
    unique = dict.fromkeys(Candidate(method) for method in [GoldOnly(), *wanted])
    return [*floor, *unique]


def training_groups(candidates: Sequence[Candidate], *, together: bool) -> list[list[Candidate]]:
    """Who trains with whom: ``together`` (on a GPU) all of equal cost per step, else each alone.

    Where students follow one another anyway, each alone has its result as early as can be.
    """
    groups: dict[object, list[Candidate]] = {}
    for candidate in candidates:
        cost = 0 if candidate.method is None else len(candidate.method.views)
        groups.setdefault(cost if together else candidate, []).append(candidate)
    return list(groups.values())


@dataclass(frozen=True, eq=False)
class Outcome:
    """One trained candidate; accuracies in percent, after the last epoch."""

    candidate: Candidate
    selection: float  # on S
    test: float | None
    seconds: float
    examples_per_second: float
    student: Student
    noise: TeacherNoise | None = None
    curve: tuple[dict[str, Any], ...] = ()
    macro_f1: float | None = None

    @property
    def test_at_selected(self) -> float | None:
        """Test accuracy at the epoch that is best on S."""
        known = [r for r in self.curve if r["selection"] is not None and r["test"] is not None]
        if not known:
            return self.test
        chosen: float = max(known, key=lambda r: (r["selection"], -r["epoch"]))["test"]
        return chosen

    def row(self, task: Task, training: TrainConfig, seed: int, hardware: str) -> Row:
        """Its results row, once it has finished."""
        candidate = self.candidate
        tested = [point["test"] for point in self.curve if point["test"] is not None]
        hard = "hard=True" in candidate.name
        return Row(
            recipe="distill",
            dataset=task.name,
            distillation=("hard" if hard else "soft") if candidate.uses_teacher else None,
            labeled=len(task.split.gold),
            method=Candidate(candidate.method).name,
            gold_repeat=1 if candidate.method is None else training.gold_repeat,
            generation=candidate.generation,
            trial=0,
            epochs=0 if candidate.method is None else training.epochs,
            accuracy={
                "last": self.test,
                "selected": self.test_at_selected,
                "best_test": max(tested, default=self.test),
            },
            macro_f1=self.macro_f1,
            teacher_accuracy=task.teacher_accuracy,
            curve=list(self.curve),
            seconds=round(self.seconds, 3),
            images_per_second=round(self.examples_per_second, 1),
            seeds={"recipe": seed, "trial": 0, "student": seed},
            hardware=hardware,
        )
