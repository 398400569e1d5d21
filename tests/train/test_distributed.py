"""Two processes give what one gives."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from noisyteacher.core.errors import InputError
from noisyteacher.train.distributed import Processes

HERE = Path(__file__).parent


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def run(script: str, folder: Path, *arguments: str, processes: int) -> None:
    folder.mkdir()
    command = [sys.executable, str(HERE / script), str(folder), *arguments]
    environment = os.environ | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    started = [
        subprocess.Popen(
            command, env=environment | {"RANK": str(rank), "WORLD_SIZE": str(processes)}
        )
        for rank in range(processes)
    ]
    assert [process.wait(timeout=180) for process in started] == [0] * processes


@pytest.mark.parametrize(
    ("script", "arguments", "names"),
    [("run_toy.py", ["processes"], ["plain", "windowed"]), ("run_albert.py", [], ["albert"])],
)
def test_two_processes_equal_one(
    tmp_path: Path, script: str, arguments: list[str], names: list[str]
) -> None:
    if script == "run_albert.py":
        pytest.importorskip("transformers")
    run(script, tmp_path / "one", *arguments, processes=1)
    run(script, tmp_path / "two", *arguments, processes=2)
    for name in names:
        one, two = (load_file(tmp_path / n / f"{name}.final.safetensors") for n in ("one", "two"))
        for key, value in one.items():
            torch.testing.assert_close(two[key], value, rtol=1e-4, atol=1e-5, msg=key)
        of_one, of_two = (losses(tmp_path / folder, name) for folder in ("one", "two"))
        assert of_two == pytest.approx(of_one, rel=1e-4)


def losses(folder: Path, name: str) -> list[float]:
    """The recorded curve: a loss of the whole batch, not of the leading process's share."""
    with safe_open(folder / "checkpoints" / f"{name}.safetensors", framework="pt") as file:
        return [record["loss"] for record in json.loads(file.metadata()["history"])["curve"]]


def test_a_batch_that_cannot_be_shared_is_refused() -> None:
    with pytest.raises(InputError, match="batch of 33 cannot be shared evenly by 2"):
        Processes(0, 2).check_batch(33)


def test_processes_of_torchrun_join_group_after_group() -> None:
    """Its store outlives a group, and one that is early must not meet the addresses of the last."""
    launcher = ("-m", "torch.distributed.run", "--nproc_per_node", "2")
    command = (*launcher, "--master_port", str(free_port()), str(HERE / "run_groups.py"))
    assert subprocess.run([sys.executable, *command], timeout=300).returncode == 0
