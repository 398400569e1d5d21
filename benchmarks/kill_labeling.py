"""Kill those who label, at random moments, and compare the store with an undisturbed one.

    python benchmarks/kill_labeling.py shards --kills 20
    python benchmarks/kill_labeling.py ray --kills 20

``shards``: two processes, ``label --shard 1/2`` and ``2/2``, get SIGKILL and are started again.
``ray``: ``label --ray ADDRESS`` with two nodes of one core each, of which one after the other is
removed without notice and replaced. The stores must agree in every bit. Exit code 1 if not.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from noisyteacher.labels import TeacherLabels
from noisyteacher.labels.manifest import Manifest

TEACHER = """
import time
import numpy as np

def logits(ids, texts):
    time.sleep({seconds})
    sums = np.array([sum(text.encode()) for text in texts], float)
    return np.stack([np.sin(sums), np.cos(sums), np.sin(sums / 3)], axis=1)
"""


def command(folder: Path, out: str, *more: str) -> subprocess.Popen[bytes]:
    """Start ``noisyteacher label`` on the texts of ``folder``."""
    base = [sys.executable, "-m", "noisyteacher", "label", "slow_teacher:logits", "pool.csv"]
    options = ["--classes", "a,b,c", "--out", out, "--shard-size", "20", "--json"]
    return subprocess.Popen([*base, *options, *more], cwd=folder, stdout=subprocess.DEVNULL)


def kill_shares(folder: Path, kills: int, dice: random.Random) -> int:
    """Label in two shares, each killed at random moments; how often."""
    done: set[int] = set()
    killed = 0
    while len(done) < 2:
        started = {i: command(folder, "many", "--shard", f"{i}/2") for i in {1, 2} - done}
        for share, process in started.items():
            try:
                # Now and then it is killed while it starts, mostly while it labels.
                process.wait(timeout=dice.uniform(1, 25) if killed < kills else None)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                killed += 1
            if process.returncode == 0:
                done.add(share)
    return killed


def kill_nodes(folder: Path, kills: int, dice: random.Random) -> int:
    """Label with two Ray nodes, removed without notice at random moments; how often."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
    process = command(folder, "many", "--ray", cluster.address, "--workers", "2")
    killed = 0
    try:
        while process.poll() is None:
            time.sleep(dice.uniform(2, 20))
            if killed < kills and process.poll() is None:
                cluster.remove_node(nodes.pop(dice.randrange(2)), allow_graceful=False)
                nodes.append(cluster.add_node(num_cpus=1))
                killed += 1
                print(f"{killed} killed", flush=True)
    finally:
        process.kill()
        cluster.shutdown()
    if process.returncode:
        sys.exit(f"label ended with {process.returncode}")
    return killed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("how", choices=("shards", "ray"))
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--rows", type=int, default=6000)
    parser.add_argument("--seconds", type=float, default=0.5, help="per batch of 20")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = (f"r{row},text {row * 7919 % 100_003}\n" for row in range(arguments.rows))
        (folder / "pool.csv").write_text("id,text\n" + "".join(rows))
        (folder / "slow_teacher.py").write_text(TEACHER.format(seconds=0))
        command(folder, "one").wait()
        (folder / "slow_teacher.py").write_text(TEACHER.format(seconds=arguments.seconds))
        os.environ["PYTHONPATH"] = os.pathsep.join([name, os.environ.get("PYTHONPATH", "")])
        began = time.monotonic()
        kill = kill_shares if arguments.how == "shards" else kill_nodes
        killed = kill(folder, arguments.kills, random.Random(arguments.seed))
        seconds = time.monotonic() - began
        one, many = (Manifest.load(folder / store) for store in ("one", "many"))
        TeacherLabels.open(folder / "many")  # checks the hashes
        parts = [
            (folder / "one" / a.file).read_bytes() == (folder / "many" / b.file).read_bytes()
            for a, b in zip(one.parts, many.parts, strict=True)
        ]
        same = all(parts) and (one.rows_sha256, one.ids_sha256) == (
            many.rows_sha256,
            many.ids_sha256,
        )
        print(
            f"{arguments.how}: {many.rows} rows, {killed} kills in {seconds:.0f} s; the store is "
            f"{'the same in every bit' if same else 'DIFFERENT'}"
        )
        sys.exit(0 if same and killed >= arguments.kills else 1)


if __name__ == "__main__":
    main()
