"""What the audit says about this teacher, before anything is trained."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from noisyteacher.distill.task import Task
from noisyteacher.methods import Method, parse
from noisyteacher.noise.audit import Audit, audit

_REPLICATES = 200


def audit_teacher(task: Task, say: Callable[[str], None]) -> Audit:
    """Audit the teacher on V and the pool, and say what speaks against it."""
    parts = task.split
    seen = task.ids[np.concatenate([parts.val, parts.pool])]
    found = audit(
        task.labels.take(seen),
        task.y[parts.val],
        task.ids[parts.val],
        replicates=_REPLICATES,
    )
    for warning in found.warnings:
        say(f"Audit: {warning}")
    return found


def recommended_method(found: Audit, task: Task) -> Method:
    """The audit's method; without consistency on tables, where it was never measured."""
    advice = found.recommendation
    return parse(advice.without_views if task.kind == "table" else advice.method)
