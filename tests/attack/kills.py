"""A kill campaign: end verbs at random moments, start them again, compare with undisturbed runs.

    python tests/attack/kills.py --count 1000 --seed 21 --jobs 16 --out kills.jsonl

Each case runs a verb one to three times and ends it with KILL, TERM or INT, at a random time or
at a random change of its output folder; then the same command runs to its end. It must succeed
(or say that its complete output exists already), the files must be those of an undisturbed run,
and nothing else may be left over. Files are compared byte by byte, but for times, durations and
the random names of a store's parts; what differs between two undisturbed runs (pages, pictures)
must only be there. Verbs are forked from a process that has imported what they import. Rows that
``--out`` holds are not run again.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import math
import os
import random
import re
import shutil
import signal
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import workplace
from forked import Forked, import_modules

# What tells when and how fast something was done, and checksums of files that tell it.
IGNORED = {"seconds", "images_per_second", "finished_at", "created_at", "sha256"} | {
    "manifest_sha256",
    "commit",
}
_TOKEN = re.compile(r"part-[0-9a-f]{8}-")
_CARD_TIME = re.compile(rb"Made on .*\n")
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)


# -- what a folder holds ---------------------------------------------------------------------------


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_times(v) for k, v in value.items() if k not in IGNORED}
    if isinstance(value, list):
        return [_without_times(one) for one in value]
    return _TOKEN.sub("part-*-", value) if isinstance(value, str) else value


def content(path: Path) -> bytes:
    """The file's content without times."""
    found = path.read_bytes()
    if path.suffix == ".json":
        return json.dumps(_without_times(json.loads(found))).encode()
    if path.suffix == ".jsonl":
        lines = dict.fromkeys(json.dumps(_without_times(json.loads(x))) for x in found.splitlines())
        return "\n".join(lines).encode()
    if path.suffix == ".safetensors":
        size = int.from_bytes(found[:8], "little")
        header = json.loads(found[8 : 8 + size])
        metadata = header.get("__metadata__", {})
        if "history" in metadata:
            metadata["history"] = json.loads(metadata["history"])
        return json.dumps(_without_times(header)).encode() + found[8 + size :]
    return _CARD_TIME.sub(b"", found) if path.name == "README.md" else found


def snapshot(folder: Path) -> dict[str, str]:
    """Every file and folder below, and a digest of each file's content without times."""
    return {
        _TOKEN.sub("part-*-", path.relative_to(folder).as_posix()): hashlib.sha256(
            content(path)
        ).hexdigest()
        if path.is_file()
        else "folder"
        for path in sorted(folder.rglob("*"))
    }


@dataclass(frozen=True)
class Reference:
    """An undisturbed run: its seconds, the changes of its folder, and what it leaves."""

    seconds: float
    changes: int
    files: dict[str, str]
    loose: frozenset[str]  # what differs between two undisturbed runs


def undisturbed(name: str, inputs: Path, work: Path) -> Reference:
    """Run the verb once to its end."""
    folder, log = shutil.copytree(inputs, work / f"{name}-whole"), work / f"{name}-whole.log"
    began, modules = time.monotonic(), work / f"{name}.modules"
    process = workplace.start(workplace.COMMANDS[name], folder, log, modules)
    changes = _wait_for_changes(process, folder / "out")
    if process.returncode:
        raise SystemExit(f"{name} fails undisturbed: {log.read_text()}")
    found = Reference(time.monotonic() - began, changes, snapshot(folder), frozenset())
    shutil.rmtree(folder)
    import_modules(modules.read_text().splitlines())
    return found


def measure(name: str, inputs: Path, work: Path) -> Reference:
    """Run the verb twice, to know what differs between undisturbed runs."""
    first, again = (undisturbed(name, inputs, work) for _ in range(2))
    if first.files.keys() != again.files.keys():
        different = first.files.keys() ^ again.files.keys()
        raise SystemExit(f"{name} leaves other files each time: {different}")
    loose = frozenset(path for path in first.files if first.files[path] != again.files[path])
    return replace(again, loose=loose)


def _wait_for_changes(process: Forked, folder: Path, wanted: float = math.inf) -> int:
    """Wait until the folder's listing has changed so often, or the process has ended."""
    before, changes = _listing(folder), 0
    while process.poll() is None and changes < wanted:
        time.sleep(0.001)
        now = _listing(folder)
        changes += now != before
        before = now
    return changes


def _listing(folder: Path) -> set[tuple[str, int]]:
    """Names and sizes of what is there; what vanishes meanwhile is left out."""
    found = set()
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(place, name)
            with contextlib.suppress(OSError):
                found.add((str(path), path.lstat().st_size))
    return found


# -- one case --------------------------------------------------------------------------------------


def attack(name: str, seed: int, inputs: Path, work: Path, reference: Reference) -> dict[str, Any]:
    """Kill the verb, start it again, and say what is wrong afterwards (empty: nothing)."""
    chance = random.Random(f"{name} {seed}")
    folder = shutil.copytree(inputs, work / f"{name}-{seed}")
    log = work / f"{name}-{seed}.log"
    command, kills = workplace.COMMANDS[name], []
    for _ in range(chance.choice((1, 1, 2, 3))):
        kills.append(_kill_once(command, folder, log, chance, reference))
    process = workplace.start(command, folder, log)
    if process.wait(120 + 20 * reference.seconds) is None:
        process.kill(signal.SIGKILL)
    errors = log.read_bytes()
    row = {"verb": name, "seed": seed, "kills": kills, "problems": []}
    exists = process.returncode == 2 and b"exists already" in errors
    if process.returncode and not exists:
        last = errors.decode(errors="replace").strip().splitlines()[-1:]
        row["problems"] = [f"exit status {process.returncode}: {last}"]
    else:
        row["problems"] = _differences(reference, snapshot(folder))
    if not row["problems"]:
        shutil.rmtree(folder)
    return row


def _kill_once(
    command: list[str], folder: Path, log: Path, chance: random.Random, reference: Reference
) -> list[str]:
    number = chance.choice(SIGNALS)
    process = workplace.start(command, folder, log)
    if reference.changes and chance.random() < 0.6:
        change = chance.randint(1, reference.changes)
        where = f"change {change}"
        _wait_for_changes(process, folder / "out", change)
    else:
        seconds = chance.uniform(0, reference.seconds)
        where = f"{seconds:.2f} s"
        process.wait(seconds)
    ended = process.poll() is not None
    process.kill(number)
    return [number.name, where, "had ended" if ended else "killed"]


def _differences(reference: Reference, files: dict[str, str]) -> list[str]:
    wanted = reference.files
    problems = [f"lost: {path}" for path in sorted(wanted.keys() - files.keys())]
    problems += [f"left over: {path}" for path in sorted(files.keys() - wanted.keys())]
    for path in sorted(wanted.keys() & files.keys()):
        if files[path] != wanted[path] and path not in reference.loose:
            problems.append(f"different: {path}")
    return problems


# -- the campaign ----------------------------------------------------------------------------------


def campaign(verbs: list[str], count: int, seed: int, jobs: int, out: Path) -> list[dict[str, Any]]:
    """Run the cases that are missing in ``out``; all rows."""
    cases = [(verbs[i % len(verbs)], seed + i) for i in range(count)]
    lines = out.read_text().splitlines() if out.exists() else []
    done = {(row["verb"], row["seed"]): row for row in map(json.loads, lines)}
    todo = [case for case in cases if case not in done]
    work = Path(tempfile.mkdtemp(prefix="kills-"))
    inputs = work / "inputs"
    inputs.mkdir()
    words = {word for verb in verbs for word in workplace.COMMANDS[verb]}
    workplace.make_inputs(inputs, student=not words.isdisjoint({"student", "run"}))
    references = {}
    for verb in dict.fromkeys(verb for verb, _ in todo):
        reference = references[verb] = measure(verb, inputs, work)
        told = f"{reference.seconds:.1f} s, {reference.changes} changes"
        loose = f"; only there: {sorted(reference.loose)}" if reference.loose else ""
        print(f"{verb}: {told}{loose}", flush=True)
    with ProcessPoolExecutor(jobs) as pool:
        futures = [pool.submit(attack, v, s, inputs, work, references[v]) for v, s in todo]
        for future in as_completed(futures):
            row = future.result()
            done[row["verb"], row["seed"]] = row
            with out.open("a") as file:
                file.write(json.dumps(row) + "\n")
            if row["problems"]:
                print(json.dumps(row), flush=True)
    rows = [done[case] for case in cases]
    if not any(row["problems"] for row in rows):
        shutil.rmtree(work)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=21)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--verbs", default=",".join(workplace.COMMANDS))
    parser.add_argument("--out", type=Path, default=Path("kills.jsonl"))
    given = parser.parse_args()
    given.out.parent.mkdir(parents=True, exist_ok=True)
    rows = campaign(given.verbs.split(","), given.count, given.seed, given.jobs, given.out)
    kills = [kill for row in rows for kill in row["kills"]]
    bad = [row for row in rows if row["problems"]]
    hit = sum(kill[2] == "killed" for kill in kills)
    for verb in given.verbs.split(","):
        own = [kill for row in rows if row["verb"] == verb for kill in row["kills"]]
        print(f"{verb}: {sum(kill[2] == 'killed' for kill in own)} kills, {len(own)} tried")
    print(f"{len(rows)} cases, {hit} kills {dict(Counter(kill[0] for kill in kills))}, ", end="")
    print(f"{len(bad)} cases with something lost, different, left over or stuck.")
    raise SystemExit(1 if bad else 0)


if __name__ == "__main__":
    main()
