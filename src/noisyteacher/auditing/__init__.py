"""Is this teacher worth it, how noisy is it, and what to do about it: the audit's numbers."""

from noisyteacher.auditing.bootstrap import Bootstrap, Interval
from noisyteacher.auditing.door import audit
from noisyteacher.auditing.findings import Finding
from noisyteacher.auditing.gold import Gold, read_gold
from noisyteacher.auditing.numbers import Numbers
from noisyteacher.auditing.recommend import Recommendation
from noisyteacher.auditing.result import Audit

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
