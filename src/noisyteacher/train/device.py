"""Where to train: the device asked for, else a GPU where there is one."""

from __future__ import annotations

import os

import torch

from noisyteacher.core.errors import InputError


def choose_device(asked: str | torch.device | None = None) -> torch.device:
    """A device that is really there; under torchrun each process has a GPU of its own."""
    has_gpu = torch.cuda.is_available()
    try:
        device = torch.device(asked or ("cuda" if has_gpu else "cpu"))
    except RuntimeError as error:
        raise InputError(f"A device is cpu, cuda or cuda:N, not {asked!r}.") from error
    if device.type not in ("cpu", "cuda"):
        raise InputError(f"A device is cpu, cuda or cuda:N, not {asked!r}.")
    if device.type == "cpu":
        return device
    if not has_gpu:
        raise InputError(f"This machine has no GPU for the device {asked}; leave it out.")
    index = device.index if device.index is not None else int(os.environ.get("LOCAL_RANK", "0"))
    if index >= torch.cuda.device_count():
        raise InputError(f"There is no GPU {index}: this machine has {torch.cuda.device_count()}.")
    return torch.device("cuda", index)
