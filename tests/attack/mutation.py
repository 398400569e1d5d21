"""Mutation testing: change one thing in the source, and see whether the folder's tests notice.

    python tests/attack/mutation.py --count 150 --seed 21 --jobs 16 --out mutants.jsonl

Each mutant runs in a copy of the tree against the tests of its folder (``tests/PACKAGE``) until the
first one fails; all of them have passed when it survives. The tests that execute the changed
statement come first, quick ones before slow ones. They run in processes that are forked from one
that has imported all libraries, but nothing of this package. Mutants are run in the order in which
they are drawn. Rows that ``--out`` holds already are not run again, so a killed call goes on where
it was; nor are the tests of the unchanged tree, whose times are kept beside it. ``--shard 2/4``
runs the second of four equal parts.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import coverage
import pytest
from forked import Forked, import_modules
from mutants import PACKAGES, ROOT, Mutant, draw

# Of CPU for one test, and as many times as long as it takes with the unchanged tree.
_LEAST_SECONDS, _LONGER = 20, 5
_MOST_SECONDS = 3600  # for all tests of a folder, by the clock


@dataclass
class Baseline:
    """How the unchanged tree fares: each test's seconds, what it executes, and what fails."""

    seconds: dict[str, float] = field(default_factory=dict)
    lines: dict[str, dict[int, list[str]]] = field(default_factory=dict)  # file, line: tests
    broken: list[str] = field(default_factory=list)
    modules: list[str] = field(default_factory=list)

    def ranks(self, mutant: Mutant) -> dict[str, tuple[int, float]]:
        """Tests that execute the statement come first, those of its file next, quick ones first."""
        lines = self.lines.get(mutant.file, {})
        first, last = mutant.statement
        near = {test for line in range(first, last + 1) for test in lines.get(line, ())}
        same = {test for tests in lines.values() for test in tests}
        return {
            test: (0 if test in near else 1 if test in same else 2, seconds)
            for test, seconds in self.seconds.items()
        }


class _Watch:
    """A plugin: which tests execute which lines, how long they take, and which fail."""

    def __init__(self, folder: Path) -> None:
        self.found = Baseline()
        self._coverage = coverage.Coverage(
            data_file=None, source=[str(folder)], config_file=False, messages=False
        )
        self._coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item):  # type: ignore[no-untyped-def]
        self._coverage.switch_context(item.nodeid)
        return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        seconds = self.found.seconds
        seconds[report.nodeid] = seconds.get(report.nodeid, 0.0) + report.duration
        if report.failed:
            self.found.broken.append(report.nodeid)

    def finish(self, base: Path, tree: Path) -> Baseline:
        self._coverage.stop()
        data = self._coverage.get_data()
        for path in data.measured_files():
            by_line = data.contexts_by_lineno(path)
            name = Path(path).relative_to(base).as_posix()
            self.found.lines[name] = {n: [t for t in ts if t] for n, ts in by_line.items()}
        self.found.modules = [
            name
            for name, module in list(sys.modules.items())
            if not name.startswith("noisyteacher")
            and not (getattr(module, "__file__", None) or str(tree)).startswith(str(tree))
        ]
        return self.found


class _Order:
    """A plugin: the tests in an order of their own, without those that fail anyway."""

    def __init__(self, ranks: dict[str, tuple[int, float]], broken: Sequence[str]) -> None:
        self.ranks, self.broken, self.failed = ranks, set(broken), ""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if item.nodeid not in self.broken]
        items.sort(key=lambda item: self.ranks.get(item.nodeid, (3, 0.0)))

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Give the test a limit: some mutants run for ever."""
        _, seconds = self.ranks.get(item.nodeid, (3, 0.0))
        used = resource.getrusage(resource.RUSAGE_SELF)
        limit = used.ru_utime + used.ru_stime + _LEAST_SECONDS + _LONGER * seconds
        resource.setrlimit(resource.RLIMIT_CPU, (int(limit), resource.RLIM_INFINITY))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed = report.nodeid


def copy_tree(target: Path) -> Path:
    """The working tree without history, environments and caches."""
    here = {".git", ".venv", "runs", "build", "dist", "shared"}
    anywhere = shutil.ignore_patterns("__pycache__", ".*_cache", ".hypothesis")

    def left_out(folder: str, names: list[str]) -> set[str]:
        return anywhere(folder, names) | (here & {*names} if Path(folder) == ROOT else set())

    shutil.copytree(ROOT, target, ignore=left_out, symlinks=True)
    return target


def _enter(tree: Path, *, gpu: bool) -> None:
    """Make a forked process one that runs the tests of ``tree``."""
    os.chdir(tree)
    os.environ["PYTHONPATH"] = str(tree / "src")
    if not gpu:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    own = (str(ROOT / "src"), str(ROOT / "tests"))
    sys.path[:] = [str(tree / "src"), *(p for p in sys.path if not p.startswith(own))]


def _arguments(package: str) -> list[str]:
    return [f"tests/{package}", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=line"]


def measure_baseline(tree: Path, package: str, gpu: bool, kept: Path) -> Baseline:
    """Run the folder's tests against the unchanged tree, unless ``kept`` tells how that went."""
    log, base = tree.with_name(f"{package}.log"), tree / "src/noisyteacher"

    def work() -> None:
        _enter(tree, gpu=gpu)
        watch = _Watch(base / package)
        pytest.main(_arguments(package), plugins=[watch])
        kept.write_text(json.dumps(asdict(watch.finish(base, tree))))

    if not kept.exists() and Forked(work, log).wait(_MOST_SECONDS) != 0:
        raise SystemExit(f"The tests of {package} do not run here:\n{log.read_text()[-3000:]}")
    found = Baseline(**json.loads(kept.read_text()))
    found.lines = {f: {int(n): t for n, t in lines.items()} for f, lines in found.lines.items()}
    if found.broken:
        print(f"{package}: left out, because they fail without a mutant: {found.broken}")
    return found


def _digest(package: str) -> str:
    """Of the package's source and tests."""
    places = (ROOT / "src/noisyteacher" / package, ROOT / "tests" / package)
    files = sorted(path for place in places for path in place.rglob("*.py"))
    return hashlib.sha256(b"\0".join(map(Path.read_bytes, files))).hexdigest()[:12]


def judge(mutant: Mutant, number: int, tree: Path, baseline: Baseline, gpu: bool) -> dict[str, Any]:
    """Run the folder's tests against one mutant."""
    path, told = tree / "src/noisyteacher" / mutant.file, tree.with_name("failed")
    source, changed, began = path.read_bytes(), int(path.stat().st_mtime), time.monotonic()
    ranks = baseline.ranks(mutant)

    def work() -> None:
        _enter(tree, gpu=gpu)
        order = _Order(ranks, baseline.broken)
        status = pytest.main([*_arguments(mutant.package), "-x"], plugins=[order])
        told.write_text(order.failed)
        raise SystemExit(int(status))

    try:
        path.write_bytes(mutant.apply(source))
        # A time of its own: bytecode of another mutant, or of the source, is not taken for its.
        os.utime(path, (changed + 1 + number,) * 2)
        told.write_text("")
        process = Forked(work, tree.with_name("mutant.log"))
        status = process.wait(_MOST_SECONDS)
        if status is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(60)
    finally:
        path.write_bytes(source)
        os.utime(path, (changed, changed))
    outcome = {None: "timeout", -signal.SIGXCPU: "timeout", 0: "survived"}.get(status, "killed")
    executed = sum(rank == 0 for rank, _ in ranks.values())
    seconds = round(time.monotonic() - began, 1)
    by = told.read_text() if outcome == "killed" else ""
    return {"outcome": outcome, "by": by, "executed_by": executed, "seconds": seconds}


def _run_shard(
    mutants: Sequence[tuple[int, Mutant]], keys: dict[Mutant, str], seed: int, gpu: bool, out: Path
) -> None:
    """Judge the mutants one after the other and append a row for each."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        tree, baselines = copy_tree(Path(folder) / "tree"), {}
        for number, mutant in mutants:
            if mutant.package not in baselines:
                kept = out.with_name(f"{out.stem}-{mutant.package}-{_digest(mutant.package)}.json")
                found = measure_baseline(tree, mutant.package, gpu, kept)
                baselines[mutant.package] = found
                import_modules(found.modules)
                print(f"{mutant.package}: {sum(found.seconds.values()):.0f} s", flush=True)
            row = {"seed": seed, "number": number, "key": keys[mutant], **asdict(mutant)}
            row |= judge(mutant, number, tree, baselines[mutant.package], gpu)
            with out.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(f"{row['outcome']:8} {row['seconds']:6.1f} s {_told(row)}", flush=True)


def _told(row: dict[str, Any]) -> str:
    return (
        f"{row['number']}: {row['file']}:{row['line']} {row['operator']}: "
        f"{_short(row['before'])} -> {_short(row['after'])}"
    )


def _short(text: str) -> str:
    return " ".join(text.split())[:60]


def summarize(rows: Sequence[dict[str, Any]]) -> str:
    """Counts, and every survivor by name."""
    survivors = [row for row in rows if row["outcome"] == "survived"]
    died = len(rows) - len(survivors)
    lines = [f"{died} of {len(rows)} mutants died ({100 * died / max(len(rows), 1):.1f} %)."]
    lines += [f"survived {_told(row)}" for row in survivors]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=150)
    parser.add_argument("--seed", type=int, default=21)
    parser.add_argument("--packages", default=",".join(PACKAGES))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--shard", default="1/1", help="I/N: run the I-th of N parts")
    parser.add_argument("--out", type=Path, default=Path("mutants.jsonl"))
    parser.add_argument("--gpu", action="store_true", help="let the tests use the GPU")
    parser.add_argument("--list", action="store_true", help="print the mutants and run nothing")
    given = parser.parse_args()
    given.out.parent.mkdir(parents=True, exist_ok=True)
    shard, shards = map(int, given.shard.split("/"))
    drawn = list(enumerate(draw(given.count, given.seed, given.packages.split(","))))
    if given.list:
        for number, mutant in drawn:
            print(_told({"number": number, **asdict(mutant)}))
        return
    lines = given.out.read_text().splitlines() if given.out.exists() else []
    rows = {row["key"]: row for row in map(json.loads, lines)}
    mine = [(n, m) for n, m in drawn if n % shards == shard - 1]
    keys = {mutant: mutant.key for _, mutant in mine}  # the source may change meanwhile
    todo = [(number, mutant) for number, mutant in mine if keys[mutant] not in rows]
    if given.jobs == 1:
        _run_shard(todo, keys, given.seed, given.gpu, given.out)
    else:
        with ProcessPoolExecutor(given.jobs) as pool:
            parts = [todo[i :: given.jobs] for i in range(given.jobs)]
            more = (keys, given.seed, given.gpu, given.out)
            for done in as_completed([pool.submit(_run_shard, part, *more) for part in parts]):
                done.result()
    rows = {row["key"]: row for row in map(json.loads, given.out.read_text().splitlines())}
    print(summarize([rows[keys[mutant]] for _, mutant in mine]))


if __name__ == "__main__":
    main()
