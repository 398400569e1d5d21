"""The user's whole way: from stored teacher labels to a finished student."""

from noisyteacher.distill.door import distill, gather
from noisyteacher.distill.files import FileOptions, read_examples
from noisyteacher.distill.generations import next_labels
from noisyteacher.distill.outcome import Distilled
from noisyteacher.distill.run import DistillSettings, run_distill
from noisyteacher.distill.student import Student
from noisyteacher.distill.student_folder import load_student, save_student

__all__ = [
    "DistillSettings",
    "Distilled",
    "FileOptions",
    "Student",
    "distill",
    "gather",
    "load_student",
    "next_labels",
    "read_examples",
    "run_distill",
    "save_student",
]
