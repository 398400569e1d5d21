"""The device asked for is there, or one sentence says that it is not."""

from __future__ import annotations

import pytest
import torch

from noisyteacher.core.errors import InputError
from noisyteacher.core.machine import choose_device


def pretend_gpus(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)


def test_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_gpus(monkeypatch, 0)
    assert choose_device() == torch.device("cpu")
    with pytest.raises(InputError, match="no GPU for the device cuda"):
        choose_device("cuda")


def test_each_process_of_torchrun_has_a_gpu_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_gpus(monkeypatch, 2)
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert choose_device() == torch.device("cuda", 1)
    assert choose_device("cuda:0") == torch.device("cuda", 0)
    with pytest.raises(InputError, match="no GPU 2: this machine has 2"):
        choose_device("cuda:2")


@pytest.mark.parametrize("name", ["tpu", "meta", "gpu"])
def test_other_devices_are_refused(name: str) -> None:
    with pytest.raises(InputError, match=f"cpu, cuda or cuda:N, not '{name}'"):
        choose_device(name)
