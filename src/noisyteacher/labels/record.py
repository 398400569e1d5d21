"""The columns of teacher labels, exactly as they stand on disk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, eq=False)
class Record:
    """Clean columns of n rows; nothing is checked here.

    ``exp(topk_logprob)`` and ``stored_tail`` of a row sum to 1 up to the float16 rounding; readers
    divide both by their sum.
    """

    ids: npt.NDArray[Any]  # (n,) int64 or str
    classes: tuple[str, ...]
    topk_index: npt.NDArray[Any]  # (n, k) unsigned
    topk_logprob: npt.NDArray[np.float16]  # (n, k) descending; a tie has the lower class first
    stored_tail: npt.NDArray[np.float32]  # (n,)
    missing: npt.NDArray[np.float32]  # (n,)
    extras: dict[str, npt.NDArray[Any]]  # each (n, ...)
    teacher: str | None = None
    revision: str | None = None
    temperature: float | None = None
