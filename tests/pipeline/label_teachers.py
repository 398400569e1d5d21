"""Teachers for tests of labeling: functions of (ids, texts), which workers import by name."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np

from noisyteacher.pipeline import read_examples
from noisyteacher.pipeline.labeling import label_files
from noisyteacher.pipeline.teachers import FunctionTeacher


def logits(ids: list[str], texts: list[str]) -> np.ndarray:
    """(b, 3), a function of the text alone; as slow as the variable SECONDS_PER_BATCH says."""
    time.sleep(float(os.environ.get("SECONDS_PER_BATCH", "0")))
    sums = np.array([sum(text.encode()) for text in texts], float)
    return np.stack([np.sin(sums), np.cos(sums), np.sin(sums / 3)], axis=1)


def choosy(ids: list[str], texts: list[str]) -> np.ndarray:
    """Fails at any batch with a text that begins with an exclamation mark."""
    if any(text.startswith("!") for text in texts):
        raise OverflowError("too loud")
    return logits(ids, texts)


def write_texts(path: Path, rows: int) -> Path:
    """A file of made-up texts."""
    lines = "".join(f"r{row},text {row * 7919 % 10_007}\n" for row in range(rows))
    path.write_text(f"id,text\n{lines}")
    return path


def label_share(ready: Any, source: Path, out: Path, share: tuple[int, int]) -> None:
    """What one of several processes does."""
    teacher, pool = (
        FunctionTeacher(logits, "mine", ("a", "b", "c")),
        read_examples(source, labeled=False),
    )
    ready.set()
    label_files(teacher, [pool], out, share=share, shard_size=5)
