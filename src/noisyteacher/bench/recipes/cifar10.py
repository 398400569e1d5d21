"""CIFAR-10: MobileNet of depth multiplier 2 teaches one of 1."""

from __future__ import annotations

from dataclasses import replace

from noisyteacher.bench.method_sets import FLOOR, PAPER_HARD
from noisyteacher.bench.recipe import Recipe
from noisyteacher.bench.recipes.cifar100 import cifar100
from noisyteacher.models import MobileNet, ModelSpec


def cifar10(teacher: ModelSpec | None = None, student: ModelSpec | None = None) -> Recipe:
    """The paper's comparison with soft labels; sizes and training are CIFAR-100's.

    ``noisyteacher bench cifar10 --labeled 5000 --epochs 60 --data DIR``. Made for one H200; nine
    students beside other runs took 404 s, alone not timed. Measured after 60 epochs: SLaM 72.46,
    vanilla 69.76, see results/RESULTS.md; the paper: 66.82 and 63.53 at 5 000 labels. The depth
    multiplier is read as Keras's.
    """
    parent = cifar100(
        teacher or MobileNet(classes=10, depth_multiplier=2), student or MobileNet(classes=10)
    )
    return replace(parent, name="cifar10", dataset="cifar10")


def cifar10_hard(teacher: ModelSpec | None = None, student: ModelSpec | None = None) -> Recipe:
    """The same with hard labels.

    ``noisyteacher bench cifar10-hard --data DIR``; one H200; time and accuracy not measured.
    """
    return replace(cifar10(teacher, student), methods=(*FLOOR, *PAPER_HARD))
