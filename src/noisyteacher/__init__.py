"""noisyteacher: train small models from the stored, imperfect labels of a big one."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from noisyteacher import losses, methods
    from noisyteacher.distill import distill, load_student
    from noisyteacher.integrations.sklearn import SLaMClassifier
    from noisyteacher.labels import TeacherLabels
    from noisyteacher.losses import SLaMLoss, mix, top_mask
    from noisyteacher.noise import TeacherNoise, Trust
    from noisyteacher.noise.audit import audit

__version__ = "0.1.0"

__all__ = [
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
    "SLaMClassifier": "integrations.sklearn",
    "SLaMLoss": "losses",
    "TeacherLabels": "labels",
    "TeacherNoise": "noise",
    "Trust": "noise",
    "audit": "noise.audit",
    "load_student": "distill",
    "mix": "losses",
    "top_mask": "losses",
}
_ROOMS = (
    "bench",
    "data",
    "errors",
    "halfspace",
    "integrations",
    "labels",
    "losses",
    "methods",
    "models",
    "noise",
    "report",
    "train",
)


class _Package(ModuleType):
    """Names of the package, each imported from its home; ``distill`` is a function *and* a home."""

    @property
    def distill(self) -> Any:
        return import_module("noisyteacher.distill").distill

    @distill.setter
    def distill(self, module: ModuleType) -> None:
        """Importing the subpackage would bind its name here; the function keeps it."""

    def __getattr__(self, name: str) -> Any:
        if name in _HOMES:
            value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        elif name in _ROOMS:
            value = import_module(f"{__name__}.{name}")
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        setattr(self, name, value)
        return value

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *__all__})


sys.modules[__name__].__class__ = _Package
