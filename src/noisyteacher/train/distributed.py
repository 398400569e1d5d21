"""One student over several processes, started by ``torchrun``."""

from __future__ import annotations

import importlib
import itertools
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.rendezvous import rendezvous

from noisyteacher.core.errors import InputError
from noisyteacher.data import Inputs
from noisyteacher.methods import Batch, Method
from noisyteacher.methods.method import inner_methods

_GROUPS = itertools.count()  # that this process has joined, and so have the others
_PLACE = ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE")


@dataclass(frozen=True)
class Processes:
    """This process among those that train one student together."""

    rank: int = 0
    count: int = 1

    @property
    def leads(self) -> bool:
        """Whether this process writes files and prints."""
        return self.rank == 0

    def check_batch(self, batch_size: int) -> None:
        if batch_size % self.count:
            raise InputError(
                f"A batch of {batch_size} cannot be shared evenly by {self.count} processes."
            )

    def check_method(self, method: Method) -> None:
        """Refuse a loss that is not the mean over the rows of a batch."""
        for one in inner_methods(method):
            if self.count > 1 and one.whole_batch:
                raise InputError(
                    f"{one!r} normalizes its loss by the whole batch, which {self.count} processes "
                    "do not see; train it in one process."
                )

    def share_of(self, rows: Inputs) -> Inputs:
        """This process's slice of a batch."""
        if isinstance(rows, tuple):
            return tuple(part.chunk(self.count)[self.rank] for part in rows)
        return rows.chunk(self.count)[self.rank]

    def share_of_batch(self, batch: Batch) -> Batch:
        def mine(column: Tensor) -> Tensor:
            return column.chunk(self.count)[self.rank]

        values = {name: mine(value) for name, value in batch.values.items()}
        return Batch(mine(batch.y), mine(batch.weight), values, batch.constants)

    def average_gradients(self, parameters: Sequence[Tensor]) -> None:
        """Replace every gradient by its mean over the processes."""
        if self.count == 1:
            return
        # A parameter without gradient here may have one elsewhere; all must take part.
        gradients = [p.grad if p.grad is not None else torch.zeros_like(p) for p in parameters]
        flat = torch.cat([g.reshape(-1) for g in gradients])
        dist.all_reduce(flat)
        flat /= self.count
        for parameter, part in zip(
            parameters, flat.split([g.numel() for g in gradients]), strict=True
        ):
            parameter.grad = part.view_as(parameter)

    def agree(self, mine: bool) -> bool:
        """What the leading process says, for all: clocks may differ, decisions must not."""
        if self.count == 1:
            return mine
        said = _for_backend(torch.tensor([mine], dtype=torch.uint8))
        dist.broadcast(said, src=0)
        return bool(said.item())

    def mean(self, mine: float) -> float:
        """The mean over the processes: all must see the same loss, and stop at the same NaN."""
        if self.count == 1:
            return mine
        total = _for_backend(torch.tensor([mine], dtype=torch.float64))
        dist.all_reduce(total)
        return float(total.item()) / self.count

    def barrier(self) -> None:
        if self.count > 1:
            dist.barrier()


def _for_backend(number: Tensor) -> Tensor:
    return number.cuda() if dist.get_backend() == "nccl" else number


@cache
def _meet(*place: str | None) -> tuple[Any, int, int]:
    """The store at this place, this process's rank, and the number of processes.

    One store serves all groups of a process. It keeps the addresses of groups that have ended, at
    which a process that is early would wait for ever, so every group has names of its own. A new
    store for each group would end with the process that serves it while others still read it.
    """
    store, rank, count = next(rendezvous("env://"))
    return store, rank, count


@contextmanager
def processes_from_environment(device: torch.device) -> Iterator[Processes]:
    """Join the processes that torchrun started, or stand alone where it did not."""
    count = int(os.environ.get("WORLD_SIZE", "1"))
    if count == 1:
        yield Processes()
        return
    started_here = not dist.is_initialized()
    if started_here:
        # Optimisers import this, and its functions take the group of that moment as a default: it
        # would never end, and its threads abort a process that is on its way out.
        importlib.import_module("torch.distributed.nn.functional")
        store, rank, count = _meet(*(os.environ.get(name) for name in _PLACE))
        dist.init_process_group(
            "nccl" if device.type == "cuda" else "gloo",
            store=dist.PrefixStore(f"group {next(_GROUPS)}", store),  # type: ignore[attr-defined]
            rank=rank,
            world_size=count,
        )
    try:
        yield Processes(dist.get_rank(), dist.get_world_size())
    finally:
        if started_here:
            dist.destroy_process_group()
