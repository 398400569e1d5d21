"""Training on a pool that does not fit on the device: a part of it at a time, a *window*.

The pool stays where it is, in the host's memory or in memory-mapped files. It is cut into blocks of
neighboring rows. In every epoch the blocks are permuted and dealt out to windows; the rows of a
window are copied to the device and shuffled there, while the next window is read. Which rows a
window holds is a function of the student's seed, the epoch and the window's number, so these are
all that a run must remember to go on. If one window holds everything, the order is the usual one.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import cycle

import numpy as np
import torch
from torch import Tensor

from noisyteacher.data import Inputs
from noisyteacher.data.tensors import parts_of, row_bytes
from noisyteacher.methods import Columns

BLOCKS = 32  # in a window: enough of them to mix a sorted pool, and each is read in one go
_PINNED_BYTES = 1 << 25


@dataclass(frozen=True, eq=False)
class Window:
    """The rows that are on the device at the same time."""

    first: int  # step of the epoch with which it begins
    steps: int
    rows: np.ndarray  # (r,) ascending, of the student's columns
    places: np.ndarray  # (e,) its entries, as places in ``rows``; repeated gold rows come up again


class WindowPlan:
    """Which rows a student reads in which window of which epoch.

    Gold rows, with their repetitions, are spread evenly over the windows. The steps of an epoch are
    shared among its windows in proportion to their entries.
    """

    def __init__(self, y: np.ndarray, gold_repeat: int, steps: int, size: int) -> None:
        """``y`` (n,) is -1 on pool rows; a window holds about ``size`` rows."""
        gold = np.flatnonzero(y >= 0)
        self._entries = np.concatenate([np.arange(len(y)), np.tile(gold, gold_repeat - 1)])
        self._steps = steps
        self.count = -(-len(y) // size)
        self._pool = np.flatnonzero(y < 0)
        self._gold = np.flatnonzero(y[self._entries] >= 0)
        self._block = max(1, size // BLOCKS)
        self._blocks = -(-len(self._pool) // self._block)
        most = -(-self._blocks // self.count) * self._block + -(-len(self._gold) // self.count)
        self.most_rows = len(y) if self.count == 1 else min(most, len(y))
        shared = -(-steps * most // len(self._entries)) + 1
        self.most_steps = steps if self.count == 1 else min(steps, shared)

    def window(self, seed: int, epoch: int, number: int) -> Window:
        """The window of this number, from 0 on."""
        if self.count == 1:
            return Window(0, self._steps, np.arange(self.most_rows), self._entries)
        rng = np.random.default_rng([seed, epoch, self.count])
        blocks = np.array_split(rng.permutation(self._blocks), self.count)
        gold = np.array_split(rng.permutation(self._gold), self.count)
        missing = self._blocks * self._block - len(self._pool)  # of the last block
        sizes = [
            len(b) * self._block - missing * int(self._blocks - 1 in b) + len(g)
            for b, g in zip(blocks, gold, strict=True)
        ]
        ends = np.rint(self._steps * np.cumsum([0, *sizes]) / len(self._entries)).astype(int)
        places = np.sort(blocks[number])[:, None] * self._block + np.arange(self._block)
        pool = self._pool[places[places < len(self._pool)]]
        entries = self._entries[np.sort(np.concatenate([pool, gold[number]]))]
        rows, found = np.unique(entries, return_inverse=True)
        return Window(int(ends[number]), int(ends[number + 1] - ends[number]), rows, found)


class WindowReader:
    """Rows of inputs and columns, copied to tensors on the device that never move.

    There are two places for a window: one is trained on, the other is filled meanwhile by a thread.
    On a GPU the rows go through pinned buffers and over a stream of their own.
    """

    def __init__(
        self,
        inputs: Inputs,
        columns: Columns,
        positions: np.ndarray,
        rows: int,
        device: torch.device,
    ) -> None:
        """``positions`` (m,) are those of the columns' rows in ``inputs``."""
        parts = parts_of(inputs)
        values = [columns.y, columns.weight, *columns.values.values()]
        self._positions, self._device = positions, device
        self._sources = [_as_stored(part) for part in parts] + values
        self._inputs = len(parts)
        self._shown, self._next = (
            [torch.empty((rows, *s.shape[1:]), dtype=s.dtype, device=device) for s in self._sources]
            for _ in range(2)
        )
        shown = tuple(
            _as_given(buffer, part) for buffer, part in zip(self._shown, parts, strict=False)
        )
        self.inputs: Inputs = shown if isinstance(inputs, tuple) else shown[0]
        y, weight, *others = self._shown[len(parts) :]
        self.columns = replace(
            columns,
            index=torch.arange(rows, device=device),
            y=y,
            weight=weight,
            values=dict(zip(columns.values, others, strict=True)),
            constants={name: value.to(device) for name, value in columns.constants.items()},
        )
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="window")
        self._reading: tuple[object, Future[None]] | None = None
        self._gpu = _PinnedCopies(self._sources, device) if device.type == "cuda" else None

    def prefetch(self, key: object, rows: np.ndarray) -> None:
        """Begin to read the rows that ``load`` will be asked for next."""
        self._reading = key, self._thread.submit(self._read, rows)

    def join(self) -> None:
        """Wait until nothing is being read."""
        if self._reading is not None:
            self._reading[1].result()

    def load(self, key: object, rows: np.ndarray) -> None:
        """Let ``inputs`` and ``columns`` begin with these rows of the pool."""
        self.join()
        if self._reading is None or self._reading[0] != key:
            self._read(rows)
        self._reading = None
        if self._gpu is not None:
            self._gpu.wait_until_read()
        for shown, read in zip(self._shown, self._next, strict=True):
            shown[: len(rows)].copy_(read[: len(rows)])
        if self._gpu is not None:
            self._gpu.mark_as_taken()

    def _read(self, rows: np.ndarray) -> None:
        of_columns, of_inputs = (torch.from_numpy(r) for r in (rows, self._positions[rows]))
        for i, (source, buffer) in enumerate(zip(self._sources, self._next, strict=True)):
            index = of_inputs if i < self._inputs else of_columns
            if self._gpu is None:
                torch.index_select(source, 0, index, out=buffer[: len(rows)])
            else:
                self._gpu.copy(source, index, buffer[: len(rows)])
        if self._gpu is not None:
            self._gpu.mark_as_read()


class _PinnedCopies:
    """Copies rows from the host to a GPU, beside its other work."""

    def __init__(self, sources: list[Tensor], device: torch.device) -> None:
        self._stream = torch.cuda.Stream(device)
        self._read, self._taken = torch.cuda.Event(), torch.cuda.Event()
        largest = max(_PINNED_BYTES, *(row_bytes(source) for source in sources))
        # Two by turns: one is filled while the other is on its way.
        buffers = [torch.empty(largest, dtype=torch.uint8, pin_memory=True) for _ in range(2)]
        self._turns = cycle([(buffer, torch.cuda.Event()) for buffer in buffers])

    def copy(self, source: Tensor, index: Tensor, goal: Tensor) -> None:
        """Queue the copy of ``source[index]`` to ``goal``; waits only for a free buffer."""
        width = row_bytes(source)
        at_once = max(1, _PINNED_BYTES // max(width, 1))
        with torch.cuda.stream(self._stream):
            # What was read before must have been taken from where this goes.
            self._stream.wait_event(self._taken)
            for some, place in zip(index.split(at_once), goal.split(at_once), strict=True):
                buffer, free = next(self._turns)
                free.synchronize()
                rows = buffer[: len(some) * width].view(source.dtype)
                rows = rows.view(len(some), *source.shape[1:])
                torch.index_select(source, 0, some, out=rows)
                place.copy_(rows, non_blocking=True)
                free.record(self._stream)

    def mark_as_read(self) -> None:
        self._read.record(self._stream)

    def wait_until_read(self) -> None:
        """Let the current stream, not the host, wait for the copies."""
        torch.cuda.current_stream().wait_event(self._read)

    def mark_as_taken(self) -> None:
        self._taken.record(torch.cuda.current_stream())


def _as_stored(rows: Tensor) -> Tensor:
    """Images as they lie in memory, channels last, so that a row is read in one piece."""
    return (rows.permute(0, 2, 3, 1) if _is_channels_last(rows) else rows).contiguous()


def _as_given(buffer: Tensor, like: Tensor) -> Tensor:
    return buffer.permute(0, 3, 1, 2) if _is_channels_last(like) else buffer


def _is_channels_last(rows: Tensor) -> bool:
    return rows.ndim == 4 and not rows.is_contiguous()
