"""The paper's printed accuracies, as data, beside which measured ones are set."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from noisyteacher.methods import UPS, VID, Method, SLaM, TaylorCE, Vanilla, Weighted

# Shares of A as the tables print them, in examples. CelebA's text prints these, oddly rounded;
# ImageNet's prints the first four, of 1 281 167 training images.
_COUNTS = {
    "celeba": {"2%": 3256, "3%": 4883, "4%": 6510, "5%": 8138, "6%": 9766, "7%": 11394},
    "imagenet": {
        "5%": 64058,
        "10%": 128116,
        "15%": 192174,
        "20%": 256232,
        "25%": 320292,
        "30%": 384350,
    },
    "imdb": {"2%": 500, "4%": 1000, "8%": 2000, "40%": 10000},
}
_NAMES: dict[type[Method], str] = {
    Vanilla: "Vanilla",
    TaylorCE: "Taylor-CE",
    UPS: "UPS",
    VID: "VID",
    Weighted: "Weighted",
    SLaM: "SLaM",
}
TEACHER = "Teacher"


@dataclass(frozen=True)
class PaperFigure:
    """Best test accuracy in percent, and what the paper prints after the ±."""

    accuracy: float
    spread: float | None

    def __str__(self) -> str:
        mean = f"{self.accuracy:.2f}"
        return mean if self.spread is None else f"{mean} ± {self.spread:.2f}"


@cache
def paper_figures() -> dict[tuple[str, str, int, str], PaperFigure]:
    """All of them, by dataset, "soft" or "hard", size of A and the paper's name of the method."""
    text = files("noisyteacher.bench").joinpath("paper.csv").read_text()
    found = {}
    for line in csv.DictReader(text.splitlines()):
        size = _COUNTS.get(line["dataset"], {}).get(line["labeled"])
        labeled = int(line["labeled"]) if size is None else size
        spread = float(line["spread"]) if line["spread"] else None
        key = (line["dataset"], line["distillation"], labeled, line["method"])
        found[key] = PaperFigure(float(line["accuracy"]), spread)
    return found


def is_the_papers(recipe: str, dataset: str) -> bool:
    """Whether the recipe has the paper's teacher and student, so that its figures compare."""
    name, *settings = recipe.split(" ")
    changed = [s for s in settings if s.startswith(("teacher=", "student=", "labels="))]
    return name == dataset and not changed


def paper_name(method: Method | str) -> str | None:
    """What the paper calls the method; its figures are the best over its hyper-parameters."""
    if isinstance(method, SLaM) and method.base != SLaM().base:
        return None  # SLaM with other losses is drawn in the paper, not printed
    return _NAMES.get(type(method)) if isinstance(method, Method) else None


def paper_methods(dataset: str, distillation: str) -> list[str]:
    """The methods of one of the paper's tables, in its order, the teacher aside."""
    keys = paper_figures()
    names = [key[3] for key in keys if key[:2] == (dataset, distillation)]
    return [name for name in dict.fromkeys(names) if name != TEACHER]
