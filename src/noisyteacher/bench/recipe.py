"""A recipe: one experiment, complete. Plain functions in ``recipes/`` return them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

import numpy as np

from noisyteacher.core.errors import InputError
from noisyteacher.methods import EXTRAS, PRETRAINED, Method
from noisyteacher.models import (
    MLP,
    BagLinear,
    BagMLP,
    MobileNet,
    ModelSpec,
    ResNetCifar,
    ResNetImageNet,
    as_spec,
)
from noisyteacher.train import Adam, TrainConfig, ValRole


@dataclass(frozen=True)
class Arm:
    """A variant of a recipe, as in an ablation; in rows, its name is added to the recipe's."""

    name: str = ""
    val_role: ValRole = "gold"
    pretrained: bool = True  # False: random weights even where the recipe pre-trains on A
    methods: tuple[Method, ...] | None = None  # None: all of the recipe's
    weight_decay: float | None = None  # of its students; None: the recipe's

    def recipe_name(self, recipe: Recipe) -> str:
        """The name of the recipe in the rows of this arm."""
        return f"{recipe.name}{ARM_MARK}{self.name}" if self.name else recipe.name


ARM_MARK = " / "
LOGISTIC = "LogisticRegression()"  # what rows of a recipe's ``logistic`` name as their method


@dataclass(frozen=True)
class Generation:
    """A second generation: ``methods`` are trained on the mean labels of ``students`` students."""

    first: Method
    methods: tuple[Method, ...]
    students: int = 2

    def __post_init__(self) -> None:
        if self.students < 1:
            raise InputError(f"A generation needs at least one student, not {self.students}.")
        if not self.methods:
            raise InputError("A second generation has no method.")


@dataclass(frozen=True)
class Recipe:
    """An experiment: dataset, split, teacher, student, methods, and how all of them are trained.

    ``methods`` may include gold only and methods without a teacher; all get the same split and
    seeds. The number of classes in ``teacher`` and ``student`` is that of the dataset.
    """

    name: str
    dataset: str
    labeled: tuple[int, ...]  # sizes of A
    teacher: ModelSpec  # either may be given as a network of the user's own
    student: ModelSpec
    methods: tuple[Method, ...]
    teacher_training: TrainConfig
    student_training: TrainConfig
    pretraining: TrainConfig | None  # of the student on A; None starts from random weights
    pretrain: Literal["all", "needed"] = "all"  # which methods start from it
    val: int = 500
    selection: int = 500
    outside: int = 0  # rows that the teacher alone learns from; 0: it learns from A, see BenchRun
    pool: int | None = None  # only with ``outside``: rows of the pool, the same for every A
    trials: int = 3
    seed: int = 0
    stratified: bool = False
    arms: tuple[Arm, ...] = (Arm(),)
    second: Generation | None = None
    logistic: bool = False  # a row of a plain logistic regression on A and V, for words and tables
    view_passes: int = 10  # only where a method needs per-view statistics
    text_length: int = 256  # tokens an encoder reads
    crop: int | None = None  # side of random resized crops; None: flips and shifts
    at_most: int | None = None  # rows of each part to use, drawn at random; None: all
    data_options: Mapping[str, object] = field(default_factory=dict)  # for ``load_dataset``

    def __post_init__(self) -> None:
        for role in ("teacher", "student"):
            object.__setattr__(self, role, as_spec(getattr(self, role)))
        if self.trials < 1:
            raise InputError(f"trials must be at least 1, not {self.trials}.")
        if not self.labeled or not self.methods:
            raise InputError(f"The recipe {self.name!r} has no labeled size or no method.")
        if bool(self.outside) != bool(self.pool):
            raise InputError(
                "A recipe whose teacher has rows of its own must set outside and pool."
            )
        if self.outside and (self.second or any(arm.val_role != "gold" for arm in self.arms)):
            raise InputError(
                "If the teacher has rows of its own, A also serves as V and must be trained on "
                "with its true labels: no arm can leave V out, and there is no second generation."
            )
        _refuse(
            [] if self.pretraining else self.all_methods,
            frozenset({PRETRAINED}),
            f"a student pre-trained on A, and the recipe {self.name!r} has no pre-training",
        )
        for arm in self.arms:
            _refuse(
                [] if arm.pretrained else arm.methods or self.methods,
                frozenset({PRETRAINED}),
                f"a student pre-trained on A, and the arm {arm.name!r} has none",
            )
        _refuse(
            self.second.methods if self.second else [],
            EXTRAS,
            "more than the labels of a second generation provide",
        )

    @property
    def all_methods(self) -> tuple[Method, ...]:
        """The methods of all arms, of both generations, and of the first students."""
        of_arms = [method for arm in self.arms for method in arm.methods or ()]
        later = (self.second.first, *self.second.methods) if self.second else ()
        return (*self.methods, *of_arms, *later)

    @property
    def uses_pretraining(self) -> bool:
        """Whether any student starts from weights trained on A."""
        if self.pretrain == "all":
            return any(arm.pretrained for arm in self.arms)
        return any(PRETRAINED in method.needs for method in self.all_methods)

    def starts_pretrained(self, method: Method) -> bool:
        """Whether a student of this method starts from weights trained on A."""
        return self.pretrain == "all" or PRETRAINED in method.needs

    def variant(self, told: str, **changes: Any) -> Recipe:
        """The recipe with other settings, which are part of its name, so that rows cannot mix."""
        return replace(self, **changes, name=f"{self.name} {told}")

    def for_classes(self, classes: int) -> Recipe:
        """The recipe with models that have as many outputs as the dataset has classes."""
        return replace(
            self,
            teacher=replace(self.teacher, classes=classes),  # type: ignore[type-var]
            student=replace(self.student, classes=classes),  # type: ignore[type-var]
        )

    def with_student(self, epochs: int | None = None, gold_repeat: int | None = None) -> Recipe:
        """The recipe with other epochs or another ``gold_repeat``; schedules are scaled."""
        given = {"epochs": epochs, "gold_repeat": gold_repeat}
        known = {name: value for name, value in given.items() if value is not None}
        return replace(self, student_training=replace(self.student_training, **known))  # type: ignore[arg-type]

    def with_batch(self, size: int) -> Recipe:
        """The recipe with another batch size; the rate is scaled, for Adam with the square root."""
        changed = {
            name: _with_batch(config, size)
            for name in ("teacher_training", "student_training", "pretraining")
            if (config := getattr(self, name)) is not None
        }
        return self.variant(f"batch={size}", **changed)

    def with_weight_decay(self, decay: float) -> Recipe:
        """The recipe with another weight decay of students; arms with their own are dropped."""
        return self.variant(
            f"weight_decay={decay:g}",
            student_training=_with_decay(self.student_training, decay),
            arms=tuple(arm for arm in self.arms if arm.weight_decay is None),
        )

    def with_gold_weight_decay(self, decay: float) -> Recipe:
        """The recipe with another weight decay of the teacher and of pre-training (both on A)."""
        return self.variant(
            f"gold_weight_decay={decay:g}",
            teacher_training=_with_decay(self.teacher_training, decay),
            pretraining=self.pretraining and _with_decay(self.pretraining, decay),
        )

    def trial_seed(self, labeled: int, trial: int) -> int:
        """The seed of all students of a trial."""
        return int(np.random.SeedSequence([self.seed, labeled, trial]).generate_state(1)[0])

    def lasting(self) -> dict[str, str]:
        """The settings that must not change within a run's folder, except those in its rows."""
        plain = replace(
            self, student_training=replace(self.student_training, epochs=1, gold_repeat=1)
        )
        # Folders of runs made before these settings existed lack them, and go on.
        unused = () if self.outside else ("outside", "pool")
        names = [f.name for f in fields(self) if f.name not in (*_TOLD_BY_ROWS, *unused)]
        told = {name: repr(getattr(plain, name)) for name in names}
        if self.second is not None:
            # Rows tell the generation, and not whose labels it learned.
            told["first"] = f"{self.second.students} x {self.second.first!r}"
        return told


_TOLD_BY_ROWS = ("labeled", "methods", "trials", "arms", "second", "logistic")


def _with_decay(config: TrainConfig, decay: float) -> TrainConfig:
    return replace(config, optimizer=replace(config.optimizer, weight_decay=decay))


def _with_batch(config: TrainConfig, size: int) -> TrainConfig:
    grown = size / config.batch_size
    optimizer = config.optimizer
    factor = math.sqrt(grown) if isinstance(optimizer, Adam) else grown
    # Rounded, so that the rate reads in a name and a file as it was meant.
    rate = float(f"{optimizer.lr * factor:.4g}")
    return replace(config, batch_size=size, optimizer=replace(optimizer, lr=rate))


def _refuse(methods: Iterable[Method], needs: frozenset[str], told: str) -> None:
    """Now, and not when the students before it have been trained."""
    for method in methods:
        if needs & method.needs:
            raise InputError(f"{method!r} needs {told}.")


# -- smoke runs -----------------------------------------------------------------------------------

SMOKE_METHODS = 12


def smoke(recipe: Recipe) -> Recipe:
    """A few rows, tiny models, at most a dozen methods, few steps; its name says so."""
    pretraining = recipe.pretraining
    every = -(-len(recipe.methods) // SMOKE_METHODS)
    outside = {"outside": 30, "pool": 40} if recipe.outside else {}
    return recipe.variant(
        "smoke",
        labeled=(24,),
        val=40,
        selection=16,
        methods=recipe.methods[::every],
        trials=1,
        at_most=120,
        **outside,
        teacher=_tiny(recipe.teacher),
        student=_tiny(recipe.student),
        teacher_training=_short(recipe.teacher_training, 1),
        student_training=_short(recipe.student_training, 2),
        pretraining=None if pretraining is None else _short(pretraining, 1),
        view_passes=2,
        text_length=min(recipe.text_length, 32),
        crop=None if recipe.crop is None else min(recipe.crop, 32),
    )


def _short(config: TrainConfig, epochs: int) -> TrainConfig:
    return replace(config, epochs=epochs, batch_size=8, steps_per_epoch=2, checkpoint_every=1)


def _tiny(model: ModelSpec) -> ModelSpec:
    """The smallest of the family; text encoders stay as they are."""
    if isinstance(model, ResNetCifar):
        return replace(model, depth=8 if model.version == 1 else 11)
    if isinstance(model, MobileNet):
        return replace(model, width=0.25, depth_multiplier=1)
    if isinstance(model, ResNetImageNet):
        return replace(model, depth=18)
    if isinstance(model, MLP):
        return replace(model, hidden=(16,))
    if isinstance(model, BagLinear | BagMLP):
        return replace(model, features=min(model.features, 500))
    return model
