"""CelebA, the attribute Male: MobileNet of depth multiplier 2 teaches ResNet-11."""

from __future__ import annotations

from dataclasses import replace

from noisyteacher.bench.method_sets import FLOOR
from noisyteacher.bench.recipe import Recipe
from noisyteacher.bench.recipes.cifar100 import cifar100
from noisyteacher.methods import UPS, VID, SLaM, TaylorCE, Vanilla, Weighted
from noisyteacher.models import MobileNet, ModelSpec, ResNetCifar

SIDE = 64
SIZES = (3256, 4883, 6510, 8138, 9766, 11394)  # 2 to 7 %, as the paper counts them


def celeba(teacher: ModelSpec | None = None, student: ModelSpec | None = None) -> Recipe:
    """The paper's comparison with soft labels, k = 2; training as on CIFAR.

    ``noisyteacher bench celeba --labeled 3256 --data DIR``. Made for one H200 (images of 64×64 take
    2.5 GB there); time and accuracy not measured.
    """
    parent = cifar100(
        teacher or MobileNet(classes=2, depth_multiplier=2, image_size=SIDE),
        student or ResNetCifar(11, classes=2, version=2),
    )
    return replace(
        parent,
        name="celeba",
        dataset="celeba",
        labeled=SIZES,
        methods=(*FLOOR, Vanilla(), TaylorCE(), UPS(), VID(), Weighted(), SLaM(k=2)),
        data_options={"attribute": "Male", "image_size": SIDE},
    )


def celeba_hard(teacher: ModelSpec | None = None, student: ModelSpec | None = None) -> Recipe:
    """The same with hard labels.

    ``noisyteacher bench celeba-hard --data DIR``; one H200; time and accuracy not measured.
    """
    hard = (
        Vanilla(hard=True),
        TaylorCE(hard=True),
        UPS(),
        VID(hard=True),
        Weighted(hard=True),
        SLaM(hard=True, k=2),
    )
    return replace(celeba(teacher, student), methods=(*FLOOR, *hard))
