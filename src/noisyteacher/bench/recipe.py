"""A recipe: one experiment, complete. Plain functions in ``recipes/`` return them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from noisyteacher.errors import InputError
from noisyteacher.methods import Method
from noisyteacher.models import ModelSpec
from noisyteacher.train import TrainConfig, ValRole


@dataclass(frozen=True)
class Recipe:
    """Dataset, split, teacher, student, methods and how all of them are trained.

    ``methods`` may name gold only and teacher-free methods too; all get the same split and seeds.
    """

    name: str
    dataset: str
    labeled: tuple[int, ...]  # sizes of A
    teacher: ModelSpec
    student: ModelSpec
    methods: tuple[Method, ...]
    teacher_training: TrainConfig
    student_training: TrainConfig
    pretraining: TrainConfig | None  # of the student on A; None starts from random weights
    val: int = 500
    selection: int = 500
    trials: int = 3
    seed: int = 0
    stratified: bool = False
    val_role: ValRole = "gold"
    view_passes: int = 10  # only where a method needs per-view statistics
    data_options: dict[str, object] = field(default_factory=dict)  # for ``load_dataset``

    def __post_init__(self) -> None:
        if self.trials < 1:
            raise InputError(f"trials must be at least 1, not {self.trials}.")
        if not self.labeled or not self.methods:
            raise InputError(f"The recipe {self.name!r} has no labelled size or no method.")

    def with_epochs(self, epochs: int) -> Recipe:
        """The same recipe with students of another length; schedules scale by themselves."""
        return replace(self, student_training=replace(self.student_training, epochs=epochs))
