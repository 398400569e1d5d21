"""The audit's result: numbers, findings and a recommendation."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from noisyteacher.auditing.findings import Finding
from noisyteacher.auditing.numbers import Numbers
from noisyteacher.auditing.recommend import Recommendation
from noisyteacher.auditing.summary import summarise


@dataclass(frozen=True)
class Audit:
    """Everything the audit found; ``str(audit)`` is the summary for people."""

    numbers: Numbers
    findings: list[Finding]
    recommendation: Recommendation

    @property
    def warnings(self) -> list[str]:
        """The findings that speak against using the labels, or this audit, as they are."""
        return [finding.text for finding in self.findings if finding.warning]

    def to_dict(self) -> dict[str, Any]:
        """Plain lists, numbers and texts, ready for JSON."""
        plain: dict[str, Any] = _with_text_keys(asdict(self))
        return plain

    def summary(self) -> str:
        """The audit in plain lines of text."""
        return summarise(self.numbers, self.findings, self.recommendation)

    def __str__(self) -> str:
        return self.summary()


def _with_text_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _with_text_keys(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_text_keys(item) for item in value]
    return value
