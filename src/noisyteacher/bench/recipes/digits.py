"""Handwritten digits, bundled with scikit-learn: a recipe for any machine."""

from __future__ import annotations

from noisyteacher.bench.recipe import Recipe
from noisyteacher.methods import GoldOnly, SLaM, Vanilla
from noisyteacher.models import MLP, ModelSpec
from noisyteacher.train import Adam, Cosine, TrainConfig

PIXELS, DIGITS = 64, 10


def digits(
    teacher: ModelSpec | None = None,
    student: ModelSpec | None = None,
    seed: int = 0,
    trials: int = 5,
) -> Recipe:
    """A teacher that saw few digits and is wrong often; small students.

    ``noisyteacher bench digits``; 2 cores of a laptop; under 90 s. Expect a teacher between
    60 and 80% right. The size of A is chosen for that, not for any method's sake.
    """
    training = TrainConfig(
        epochs=40, batch_size=64, optimizer=Adam(3e-3), schedule=Cosine(), checkpoint_every=40
    )
    return Recipe(
        name="digits",
        dataset="digits",
        labeled=(30,),
        teacher=teacher or MLP(PIXELS, DIGITS, hidden=(256, 256)),
        student=student or MLP(PIXELS, DIGITS, hidden=(64,)),
        methods=(GoldOnly(), Vanilla(), Vanilla(hard=True), SLaM(), SLaM(hard=True)),
        teacher_training=training,
        student_training=training,
        pretraining=training,
        pretrain="needed",
        val=100,
        selection=100,
        trials=trials,
        seed=seed,
    )
