"""noisyteacher: train small models on the stored, imperfect labels of a large one."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from noisyteacher import losses, methods
    from noisyteacher.auditing import audit
    from noisyteacher.core.errors import InputError, NoisyTeacherWarning
    from noisyteacher.integrations.sklearn import SLaMClassifier
    from noisyteacher.labels import TeacherLabels
    from noisyteacher.losses import SLaMLoss, mix, top_mask
    from noisyteacher.noise import TeacherNoise, Trust
    from noisyteacher.pipeline import distill, load_student

__version__ = "0.1.0"

__all__ = [
    "InputError",
    "NoisyTeacherWarning",
    "SLaMClassifier",
    "SLaMLoss",
    "TeacherLabels",
    "TeacherNoise",
    "Trust",
    "__version__",
    "audit",
    "distill",
    "load_student",
    "losses",
    "methods",
    "mix",
    "top_mask",
]

# Imported when first asked for: torch and scikit-learn take seconds, and `noisyteacher --help`
# needs neither.
_HOMES = {
    "InputError": "core.errors",
    "NoisyTeacherWarning": "core.errors",
    "SLaMClassifier": "integrations.sklearn",
    "SLaMLoss": "losses",
    "TeacherLabels": "labels",
    "TeacherNoise": "noise",
    "Trust": "noise",
    "audit": "auditing",
    "distill": "pipeline",
    "load_student": "pipeline",
    "mix": "losses",
    "top_mask": "losses",
}
_PACKAGES = (
    "bench",
    "data",
    "halfspace",
    "integrations",
    "labels",
    "losses",
    "methods",
    "models",
    "noise",
    "pipeline",
    "report",
    "train",
)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    elif name in _PACKAGES:
        value = import_module(f"{__name__}.{name}")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
