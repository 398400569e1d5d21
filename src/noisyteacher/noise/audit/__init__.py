"""Is this teacher worth it, how noisy is it, and what to do about it: the audit's numbers."""

from noisyteacher.noise.audit.bootstrap import Bootstrap, Interval
from noisyteacher.noise.audit.door import audit
from noisyteacher.noise.audit.findings import Finding
from noisyteacher.noise.audit.gold import Gold, read_gold
from noisyteacher.noise.audit.numbers import Numbers
from noisyteacher.noise.audit.recommend import Recommendation
from noisyteacher.noise.audit.result import Audit

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
