"""Teacher labels: soft labels keyed by example id, and their store on disk."""

from noisyteacher.labels.teacher_labels import TeacherLabels

__all__ = ["TeacherLabels"]
