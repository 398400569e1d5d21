"""noisyteacher: train small models from the stored, imperfect labels of a big one."""

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
