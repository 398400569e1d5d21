"""ImageNet: ResNet-50 teaches ResNet-18."""

from __future__ import annotations

from dataclasses import replace

from noisyteacher.bench.method_sets import FLOOR
from noisyteacher.bench.recipe import Recipe
from noisyteacher.methods import VID, Method, PolyLoss, SLaM, TaylorCE, Vanilla, Weighted
from noisyteacher.models import ModelSpec, ResNetImageNet
from noisyteacher.train import IMAGENET_STEPS, SGD, TrainConfig

STORED, SHOWN = 160, 128
SIZES = (64058, 128116, 192174, 256232, 320292, 384350)  # 5 to 30 % of 1 281 167
BOUNDS = (0.55, 0.6, 0.65, 0.7)


def slams(base: Method | str = "ce") -> tuple[Method, ...]:
    """The paper's lower bounds, of which it reports the best; k is fixed to 5."""
    return tuple(SLaM(base=base, lower_bound=bound, k=5) for bound in BOUNDS)  # type: ignore[arg-type]


def imagenet(teacher: ModelSpec | None = None, student: ModelSpec | None = None) -> Recipe:
    """The paper's comparison with soft labels, without UPS, as there.

    ``noisyteacher bench imagenet --labeled 128116 --trials 1 --data DIR``. Made for one H200: all
    images lie on it at 160×160 (102 GB) and are shown at 128×128; the paper does not tell its size.
    Time and accuracy not measured.
    """
    training = TrainConfig(
        epochs=100,
        batch_size=256,
        optimizer=SGD(0.1, momentum=0.9, weight_decay=1e-4),
        schedule=IMAGENET_STEPS,
        eval_batch=512,
    )
    return Recipe(
        name="imagenet",
        dataset="imagenet",
        labeled=SIZES,
        teacher=teacher or ResNetImageNet(50),
        student=student or ResNetImageNet(18),
        methods=(*FLOOR, Vanilla(), TaylorCE(), VID(0.3), Weighted(every=0), *slams()),
        teacher_training=replace(training, eval_every=10),
        student_training=training,
        pretraining=replace(training, eval_every=10),
        val=10_000,
        selection=10_000,
        trials=4,
        crop=SHOWN,
        data_options={"image_size": STORED},
    )


def imagenet_losses(teacher: ModelSpec | None = None, student: ModelSpec | None = None) -> Recipe:
    """Cross-entropy, Taylor-CE and PolyLoss, each alone and inside SLaM.

    ``noisyteacher bench imagenet-losses --trials 1 --data DIR``; one H200; time and accuracy not
    measured.
    """
    inside = (*slams(), *slams(TaylorCE()), *slams(PolyLoss()))
    return replace(imagenet(teacher, student), methods=(Vanilla(), TaylorCE(), PolyLoss(), *inside))
