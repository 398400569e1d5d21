"""The audit of a teacher: how accurate its labels are, how noisy, and what to do about it."""

from noisyteacher.auditing.bootstrap import Bootstrap
from noisyteacher.auditing.findings import Finding
from noisyteacher.auditing.gold import Gold, read_gold
from noisyteacher.auditing.measurements import Numbers
from noisyteacher.auditing.recommend import Recommendation
from noisyteacher.auditing.teacher_audit import Audit, audit
from noisyteacher.choose.decision import Interval

__all__ = [
    "Audit",
    "Bootstrap",
    "Finding",
    "Gold",
    "Interval",
    "Numbers",
    "Recommendation",
    "audit",
    "read_gold",
]
