"""IMDB reviews: ALBERT-large teaches ALBERT-base; or any encoder, or TF-IDF students."""

from __future__ import annotations

from dataclasses import replace

from noisyteacher.bench.method_sets import FLOOR
from noisyteacher.bench.recipe import Recipe
from noisyteacher.methods import VID, Consistency, GoldOnly, SLaM, TaylorCE, Vanilla, Weighted
from noisyteacher.models import BagLinear, ModelSpec, TextEncoder
from noisyteacher.train import Adam, Constant, Cosine, TrainConfig

WORDS = 20_000
SIZES = (500, 1000, 2000, 10000)


def text_training(model: ModelSpec, epochs: int) -> TrainConfig:
    """Encoders: Adam at 2e-5. Bags of words: a peak rate of .02 after a warm-up, batch 256."""
    if isinstance(model, TextEncoder):
        return TrainConfig(
            epochs, batch_size=32, optimizer=Adam(2e-5), schedule=Cosine(0.1), eval_batch=256
        )
    return TrainConfig(
        epochs, batch_size=256, optimizer=Adam(0.02), schedule=Cosine(0.3), checkpoint_every=4
    )


def imdb(teacher: ModelSpec | None = None, student: ModelSpec | None = None) -> Recipe:
    """The paper's comparison, at a rate usual for encoders: its own are 1e-6 and 1e-7.

    ``noisyteacher bench imdb --labeled 500,2000 --teacher FOLDER --student FOLDER --data DIR``;
    without the folders, ALBERT-large and -base come from the hub. Made for one H200; five students
    of three layers and 8 epochs, beside other runs, took 163 s. Measured with MiniLM, six layers to
    three, 500 labels: vanilla 85.40, SLaM 85.36, see results/RESULTS.md; ALBERT was not run.
    """
    teacher = teacher or TextEncoder("albert/albert-large-v2", 2)
    student = student or TextEncoder("albert/albert-base-v2", 2)
    slams = tuple(SLaM(lower_bound=bound, k=2) for bound in (0.5, 0.6, 0.7, 0.8, 0.9))
    return Recipe(
        name="imdb",
        dataset="imdb",
        labeled=SIZES,
        teacher=teacher,
        student=student,
        methods=(*FLOOR, Vanilla(), TaylorCE(), VID(), Weighted(every=10), *slams),
        teacher_training=text_training(teacher, 20),
        student_training=text_training(student, 40),
        pretraining=text_training(student, 1),
        pretrain="needed",
    )


def imdb_paper_rates(teacher: ModelSpec | None = None, student: ModelSpec | None = None) -> Recipe:
    """The same with the rates as printed: 1e-6 for the teacher, 1e-7 for the student.

    ``noisyteacher bench imdb-paper-rates --data DIR``; one H200; time and accuracy not measured.
    """
    parent = imdb(teacher, student)

    def at(config: TrainConfig, rate: float) -> TrainConfig:
        return replace(config, optimizer=Adam(rate), schedule=Constant())

    return replace(
        parent,
        name="imdb-paper-rates",
        teacher_training=at(parent.teacher_training, 1e-6),
        student_training=at(parent.student_training, 1e-7),
        pretraining=at(text_training(parent.student, 1), 1e-7),
    )


def imdb_words(teacher: ModelSpec | None = None, student: ModelSpec | None = None) -> Recipe:
    """Linear students on 20 000 words and pairs of words, gold repeated five times.

    The teacher is of the same kind. A plain logistic regression on A and V stands beside them.

    ``noisyteacher bench imdb-words --labels STORE --data DIR`` takes stored labels, such as a
    zero-shot teacher's, instead. Two cores or one GPU, minutes; accuracy: see results/RESULTS.md
    for what was measured.
    """
    teacher, student = teacher or BagLinear(WORDS, 2), student or BagLinear(WORDS, 2)
    per_class = SLaM(hard=True, per_class=True)
    return replace(
        imdb(teacher, student),
        name="imdb-words",
        labeled=(100, 500),
        methods=(
            GoldOnly(),
            Consistency(None, threshold=0.95),
            Vanilla(),
            Vanilla(hard=True),
            SLaM(hard=True),
            per_class,
            Consistency(Vanilla()),
            Consistency(SLaM(hard=True)),
            Consistency(per_class),
        ),
        student_training=replace(text_training(student, 12), gold_repeat=5),
        pretraining=None,
        pretrain="all",
        logistic=True,
    )
