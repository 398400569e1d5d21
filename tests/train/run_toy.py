"""A script the resume and two-process tests start: trains toy students into a folder."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from pathlib import Path

import torch
from safetensors.torch import save_file
from toy import Everything, Net, PlainCE, make_toy, small

from noisyteacher.train import train


class Slow(Everything):
    """Leaves time to be killed in."""

    def loss(self, *args):
        time.sleep(0.02)
        return super().loss(*args)


def thread_names() -> list[str]:
    """Of this process, those of libraries included; where the system does not tell, none."""
    return [task.read_text() for task in Path("/proc/self/task").glob("*/comm")]


def main(folder: Path, mode: str) -> None:
    torch.set_num_threads(1)
    toy = make_toy()
    if mode == "processes":
        jobs = [toy.job("plain", PlainCE(), model=Net(dropout=0.0))]
    else:
        jobs = [toy.job("first", Slow(), seed=1), toy.job("second", PlainCE(), seed=2)]
    options = {"out": folder, "quiet": True, "device": "cpu", "minutes": 30}
    done = train(jobs, toy.data, small(6), **options)
    if mode == "processes":
        windowed = replace(jobs[0], name="windowed")
        done += train(windowed, toy.data, small(6), max_memory=4e-6, **options)
    if mode == "processes":
        # Threads of a group that did not end abort the process on its way out, now and then.
        assert not [name for name in thread_names() if "gloo" in name]
        if int(os.environ.get("RANK", "0")):
            return
    for student in done:
        save_file(student.state, folder / f"{student.job.name}.final.safetensors")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
