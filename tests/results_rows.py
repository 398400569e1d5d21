"""Invented results rows for tests of run folders, tables, figures and pages."""

from __future__ import annotations

from typing import Any

from noisyteacher.bench.plan import distillation
from noisyteacher.methods import Method
from noisyteacher.runs import Row, named_method


def row(method: str = "SLaM()", accuracy: float = 40.0, **changes: Any) -> Row:
    """A row whose best test epoch lies one point above its last."""
    known = named_method(method)
    values: dict[str, Any] = {
        "recipe": "cifar100",
        "dataset": "cifar100",
        "distillation": distillation(known) if isinstance(known, Method) else None,
        "labeled": 5000,
        "method": method,
        "gold_repeat": 1,
        "generation": 1,
        "trial": 0,
        "epochs": 60,
        "accuracy": {"last": accuracy, "selected": accuracy, "best_test": accuracy + 1},
        "macro_f1": accuracy - 1,
        "teacher_accuracy": 34.0,
        "curve": [{"epoch": 1, "loss": 1.0, "selection": 30.0, "test": accuracy}],
        "seconds": 1.0,
        "images_per_second": 100.0,
        "seeds": {"recipe": 0, "trial": 0, "student": 1},
        "hardware": "none",
    }
    return Row(**values | changes)
