"""noisyteacher: train small models from the stored, imperfect labels of a big one."""

from noisyteacher import losses, methods
from noisyteacher.labels import TeacherLabels
from noisyteacher.losses import SLaMLoss, mix, top_mask
from noisyteacher.noise import TeacherNoise, Trust

__version__ = "0.1.0"

__all__ = [
    "SLaMLoss",
    "TeacherLabels",
    "TeacherNoise",
    "Trust",
    "__version__",
    "losses",
    "methods",
    "mix",
    "top_mask",
]
