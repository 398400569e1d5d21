"""Distillation from files: from stored teacher labels to a finished student."""

from noisyteacher.data import read_examples
from noisyteacher.io.user_tables import FileOptions
from noisyteacher.pipeline.api import distill, gather, run_distill
from noisyteacher.pipeline.distilled import Distilled, Unfinished
from noisyteacher.pipeline.generations import next_labels
from noisyteacher.pipeline.preparation import DistillSettings
from noisyteacher.pipeline.student import Student, load_student, save_student

__all__ = [
    "DistillSettings",
    "Distilled",
    "FileOptions",
    "Student",
    "Unfinished",
    "distill",
    "gather",
    "load_student",
    "next_labels",
    "read_examples",
    "run_distill",
    "save_student",
]
