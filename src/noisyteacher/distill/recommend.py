"""What the audit recommends for this teacher."""

from __future__ import annotations

from collections.abc import Callable

from noisyteacher.distill.task import Task
from noisyteacher.methods import Method, parse


def recommend(task: Task, say: Callable[[str], None]) -> Method | None:
    """The audit's method for this teacher; None where it advises to leave the teacher out."""
    from noisyteacher.noise.audit import audit

    val = task.split.val
    found = audit(task.labels.take(task.ids[val]), task.y[val])
    return parse(found.recommended)
