"""What the audit says about this teacher, before anything is trained."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from noisyteacher.auditing import Audit, audit
from noisyteacher.pipeline.task import Task

_REPLICATES = 200


def audit_teacher(task: Task, say: Callable[[str], None]) -> Audit:
    """Audit the teacher on V and the pool, and say what speaks against it."""
    parts = task.split
    seen = task.ids[np.concatenate([parts.val, parts.pool])]
    found = audit(
        task.labels.take(seen),
        [task.classes[label] for label in task.y[parts.val]],
        task.ids[parts.val],
        kind=task.kind,
        replicates=_REPLICATES,
    )
    for warning in found.warnings:
        say(f"Audit: {warning}")
    return found
