"""The networks that are tried, gold only always among them, and the anchor of the choice.

**The anchor** is kept unless another candidate is one standard error better on held-out gold rows
(``choose.anchored``), so it is the method that loses least where it is not the best.

- Images: ``Consistency(Calibrated(Vanilla()))``. On CIFAR-100 with 1 000 gold labels and a teacher
  that learned from other images it has 56.02, ``Consistency(SLaM())`` 43.65 (results/RESULTS.md).
  With a teacher trained on the same 5 000 gold labels alone, ``Consistency(SLaM())`` has 50.0 and a
  calibrated Taylor-CE inside consistency 47.7.
- Tables: ``Calibrated(Vanilla())``. Students of digits and of 40 Gaussian classes, 80 to 400 gold
  rows, 50 cells: the chosen one is 0.9 points below the best in hindsight, and was 2.0 below it
  when SLaM in Consistency was the anchor and nothing plain was tried. With teachers that knew far
  more than the gold rows it was 3.5 and is 0.4, with weak ones it was 0.6 and is 1.3.
- Texts: ``Consistency(SLaM(hard=True, per_class=True))``. On AG News, three teachers and 100 to
  2 000 gold rows, always keeping it had 84.5 where the best candidate in hindsight had 84.8.

Both forms, calibrated and SLaM in Consistency, are tried of images and of tables.

``Consistency(None)``, which needs no teacher, is a rival for images only: on texts it falls below
logistic regression.
"""

from __future__ import annotations

from collections.abc import Sequence

from noisyteacher.choose.choice import Candidate
from noisyteacher.core.errors import InputError
from noisyteacher.data.dataset import Kind
from noisyteacher.methods import (
    PRETRAINED,
    Calibrated,
    Consistency,
    ForwardCorrection,
    GoldOnly,
    Method,
    SLaM,
    TaylorCE,
    Vanilla,
)

# Up to so many, a few hundred gold rows tell how often each class is taken for each other.
_FEW_CLASSES = 10


def default_slam(kind: Kind, classes: int) -> SLaM:
    """Teachers of texts and tables have favourite classes; images do best with soft labels."""
    # With two classes every k is 2; written as the audit writes it, it is not tried twice.
    k = 2 if classes == 2 else "auto"
    return SLaM(k=k) if kind == "image" else SLaM(hard=True, k=k, per_class=True)


def default_anchor(kind: Kind, classes: int) -> Method:
    """What is kept where nothing is clearly better."""
    if kind == "image":
        return Consistency(Calibrated(Vanilla()))
    if kind == "table":
        return Calibrated(Vanilla())
    return Consistency(default_slam(kind, classes))


def choose_candidates(
    kind: Kind,
    classes: int,
    recommended: Method,
    *,
    methods: Sequence[Method] = (),
    compare: bool = False,
    quick: bool = False,
) -> tuple[list[Candidate], Candidate | None]:
    """What is tried, and which of it is the anchor, if any.

    Gold only first, then logistic regression for texts and tables, then the ways to use the
    teacher. ``methods`` the user names replace the defaults; ``quick`` keeps only the method that
    the audit recommends; ``compare`` adds the rivals. A single method that uses the teacher is the
    anchor; of several that leave the default anchor out, none is.
    """
    slam = default_slam(kind, classes)
    anchor = default_anchor(kind, classes)
    wanted = [*methods] if methods else [recommended]
    if not methods and not quick:
        wanted += [anchor, Consistency(slam)]
    if compare:
        wanted += [Vanilla(), slam, Calibrated(TaylorCE(2))]
        wanted.append(Consistency(None if kind == "image" else Calibrated(TaylorCE(2))))
        if classes <= _FEW_CLASSES:
            wanted.append(Consistency(ForwardCorrection()))
    for method in wanted:
        if PRETRAINED in method.needs:
            raise InputError(
                f"{method!r} needs a student pre-trained on gold; train it with `noisyteacher "
                "bench`."
            )
    floor = [Candidate(None)] if kind != "image" else []
    unique = [*dict.fromkeys(Candidate(method) for method in [GoldOnly(), *wanted])]
    taught = [candidate for candidate in unique if candidate.uses_teacher]
    if Candidate(anchor) in taught:
        return [*floor, *unique], Candidate(anchor)
    return [*floor, *unique], taught[0] if len(taught) == 1 else None
