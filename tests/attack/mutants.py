"""Mutation testing: change one thing in the source, and see whether the folder's tests notice.

    python tests/attack/mutants.py --count 150 --seed 21 --jobs 16 --out mutants.jsonl

Mutants are drawn evenly over the packages, and within a package evenly over the operators that
apply to it. Messages, annotations, docstrings and decorators are never mutated, nor are files that
only draw figures or print tables. Each mutant runs in a copy of the tree against the tests of its
folder (``tests/PACKAGE``). Rows that ``--out`` holds already are not run again, so a killed call
goes on where it was; ``--shard 2/4`` runs the second of four equal parts. Only pytest and the
package's own dependencies are needed.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from queue import Queue
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("noise", "losses", "methods", "choose", "train", "bench")
# Figures and printed tables: their constants are sizes and colors.
LEFT_OUT = {"bench/figures.py", "bench/paper_tables.py", "methods/doc_tables.py"}

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
# Calls that tell the user something or describe types: what stands in them is no behavior.
_SPOKEN = {"warn", "say", "InputError", "print", "TypeVar", "isinstance", "cast", "TypeAlias"}
_SPOKEN_ENDINGS = ("Error", "Warning", ".say", ".warn")
_SPOKEN_KEYWORDS = {"repr", "stacklevel", "help", "title", "say", "quiet"}


@dataclass(frozen=True)
class Mutant:
    """One change: bytes ``start`` to ``end`` of ``file`` become ``after``."""

    package: str
    file: str  # below src/noisyteacher
    line: int
    operator: str
    start: int
    end: int
    before: str
    after: str

    @property
    def key(self) -> str:
        """Other source, other mutant: rows of an earlier commit are not taken for this one."""
        source = (ROOT / "src/noisyteacher" / self.file).read_bytes()
        return hashlib.sha256(source + repr(asdict(self)).encode()).hexdigest()[:16]

    def apply(self, source: bytes) -> bytes:
        return source[: self.start] + self.after.encode() + source[self.end :]


# -- where mutants can be --------------------------------------------------------------------------


class _Finder(ast.NodeVisitor):
    """All mutants of one file."""

    def __init__(self, package: str, file: str, source: bytes) -> None:
        self.package, self.file, self.source = package, file, source
        self.found: list[Mutant] = []
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def _add(self, node: ast.AST, operator: str, after: str) -> None:
        start = self._starts[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined]
        end = self._starts[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]
        before = self.source[start:end].decode()
        mutant = Mutant(
            self.package,
            self.file,
            node.lineno,  # type: ignore[attr-defined]
            operator,
            start,
            end,
            before,
            after,
        )
        self.found.append(mutant)

    def _visit_all(self, nodes: Sequence[ast.AST | None]) -> None:
        for node in nodes:
            if node is not None:
                self.visit(node)

    # What is left out: annotations, decorators, docstrings, messages, repr.

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if node.name not in ("__repr__", "__str__"):
            self._visit_all([*node.args.defaults, *node.args.kw_defaults, *node.body])

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._visit_all(node.body)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._visit_all([node.value])

    def visit_Raise(self, node: ast.Raise) -> None:
        pass

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        pass

    def visit_Assert(self, node: ast.Assert) -> None:
        pass

    def visit_If(self, node: ast.If) -> None:
        if "TYPE_CHECKING" in ast.dump(node.test):
            return
        self._add(node.test, "negated condition", f"not ({ast.unparse(node.test)})")
        self.generic_visit(node)

    # The operators.

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant):
            return
        if isinstance(node.value, ast.Call) and not _spoken(node.value):
            self._add(node, "removed statement", "pass")
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._add(node, "removed statement", "pass")
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        for i, operator in enumerate(node.ops):
            ops = [*node.ops]
            ops[i] = _COMPARISONS[type(operator)]()
            self._replace(node, "comparison", ast.Compare(node.left, ops, node.comparators))
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        texts = any(isinstance(n, ast.JoinedStr) or _is_text(n) for n in ast.walk(node))
        if type(node.op) in _ARITHMETIC and not texts:
            swapped = ast.BinOp(node.left, _ARITHMETIC[type(node.op)](), node.right)
            self._replace(node, "arithmetic", swapped)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        other = ast.And() if isinstance(node.op, ast.Or) else ast.Or()
        self._replace(node, "and/or", ast.BoolOp(other, node.values))
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self._replace(node, "dropped not", node.operand)
        elif isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant):
            self._replace(node, "dropped minus", node.operand)
        elif isinstance(node.op, ast.Invert):
            self._replace(node, "dropped not", node.operand)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, bool):
            self._add(node, "constant", str(not value))
        elif isinstance(value, int):
            self._add(node, "constant", f"({value + 1})")
            self._add(node, "constant", f"({value - 1})")
        elif isinstance(value, float):
            self._add(node, "constant", f"({value * 2 if value else 1.0})")

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if isinstance(node.slice, ast.Slice):
            for bound in (node.slice.lower, node.slice.upper):
                if bound is not None and not isinstance(bound, ast.Constant):
                    self._add(bound, "off by one", f"({ast.unparse(bound)}) + 1")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if _spoken(node):
            return
        positional = [a for a in node.args if not isinstance(a, ast.Starred)]
        if len(positional) == len(node.args) >= 2:
            first, second, *rest = node.args
            if ast.dump(first) != ast.dump(second):
                swapped = ast.Call(node.func, [second, first, *rest], node.keywords)
                self._replace(node, "swapped arguments", swapped)
        if isinstance(node.func, ast.Name) and node.func.id == "range":
            last = node.args[-1] if len(node.args) < 3 else node.args[1]
            self._add(last, "off by one", f"({ast.unparse(last)}) - 1")
        keywords = [k.value for k in node.keywords if k.arg not in _SPOKEN_KEYWORDS]
        self._visit_all([node.func, *node.args, *keywords])

    def _replace(self, node: ast.AST, operator: str, by: ast.AST) -> None:
        self._add(node, operator, f"({ast.unparse(by)})")


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)


def _spoken(call: ast.Call) -> bool:
    name = ast.unparse(call.func)
    return name in _SPOKEN or name.endswith(_SPOKEN_ENDINGS)


def mutants_of(package: str) -> Iterator[Mutant]:
    """Every mutant of a package, in the order of its files."""
    base = ROOT / "src/noisyteacher"
    for path in sorted((base / package).rglob("*.py")):
        name = path.relative_to(base).as_posix()
        if name in LEFT_OUT or path.name == "__init__.py":
            continue
        source = path.read_bytes()
        finder = _Finder(package, name, source)
        finder.visit(ast.parse(source))
        yield from finder.found


def draw(count: int, seed: int, packages: Sequence[str]) -> list[Mutant]:
    """``count`` different mutants, evenly over packages and, within one, over operators."""
    chance = random.Random(seed)
    left: dict[str, dict[str, list[Mutant]]] = {}
    for package in packages:
        kinds = left.setdefault(package, {})
        for mutant in mutants_of(package):
            kinds.setdefault(mutant.operator, []).append(mutant)
    drawn: list[Mutant] = []
    while len(drawn) < count and any(left.values()):
        package = packages[len(drawn) % len(packages)]
        kinds = left[package] or next(kinds for kinds in left.values() if kinds)
        operator = chance.choice(sorted(kinds))
        mutant = kinds[operator].pop(chance.randrange(len(kinds[operator])))
        if _parses(mutant):
            drawn.append(mutant)
        if not kinds[operator]:
            del kinds[operator]
    return drawn


def _parses(mutant: Mutant) -> bool:
    try:
        ast.parse(mutant.apply((ROOT / "src/noisyteacher" / mutant.file).read_bytes()))
    except SyntaxError:
        return False
    return True


# -- running them ----------------------------------------------------------------------------------


def copy_tree(target: Path) -> Path:
    """The working tree without history, environments and caches."""
    here = {".git", ".venv", "runs", "build", "dist", "shared"}
    anywhere = shutil.ignore_patterns("__pycache__", ".*_cache", ".hypothesis")

    def left_out(folder: str, names: list[str]) -> set[str]:
        return anywhere(folder, names) | (here & {*names} if Path(folder) == ROOT else set())

    shutil.copytree(ROOT, target, ignore=left_out, symlinks=True)
    return target


def run_tests(
    tree: Path, package: str, timeout: float, more: Sequence[str] = (), *, gpu: bool = False
) -> tuple[int | None, str, float]:
    """Exit status (None: timed out), the output's end, and seconds."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(tree / "src"), os.environ.get("PYTHONPATH", "")]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
    }
    if not gpu:
        environment["CUDA_VISIBLE_DEVICES"] = ""
    command = [sys.executable, "-m", "pytest", f"tests/{package}", "-q", "-p", "no:cacheprovider"]
    command += ["--tb=line", *more]
    if find_spec("jaxtyping") is None or find_spec("beartype") is None:
        command += ["-o", "addopts="]
    began = time.monotonic()
    process = subprocess.Popen(
        command,
        cwd=tree,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=timeout)
        status: int | None = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        status = None
    return status, output[-20000:], time.monotonic() - began


def _failed(output: str) -> list[str]:
    """The tests that failed, by name."""
    lines = (line.split(" ") for line in output.splitlines())
    return [words[1] for words in lines if words[0] in ("FAILED", "ERROR") and len(words) > 1]


@dataclass(frozen=True)
class Baseline:
    """How the unchanged tree fares: seconds, and the tests that cannot pass on this machine."""

    seconds: float
    broken: tuple[str, ...]


def measure_baseline(tree: Path, package: str, gpu: bool) -> Baseline:
    status, output, seconds = run_tests(tree, package, 3600, ["-rfE"], gpu=gpu)
    broken = tuple(_failed(output))
    if status not in (0, 1) or (status == 1 and not broken):
        raise SystemExit(f"The tests of {package} do not run here:\n{output[-3000:]}")
    if broken:
        print(f"{package}: left out, because they fail without a mutant: {', '.join(broken)}")
    return Baseline(seconds, broken)


def judge(mutant: Mutant, tree: Path, baseline: Baseline, gpu: bool) -> dict[str, Any]:
    """Run the folder's tests against one mutant."""
    path = tree / "src/noisyteacher" / mutant.file
    source = path.read_bytes()
    more = ["-x", "-rfE", *(f"--deselect={name}" for name in baseline.broken)]
    try:
        path.write_bytes(mutant.apply(source))
        timeout = 60 + 6 * baseline.seconds
        status, output, seconds = run_tests(tree, mutant.package, timeout, more, gpu=gpu)
    finally:
        path.write_bytes(source)
    outcome = {None: "timeout", 0: "survived"}.get(status, "killed")
    by = _failed(output)[:1] if outcome == "killed" else []
    return {"outcome": outcome, "seconds": round(seconds, 1), "by": by[0] if by else None}


def run(
    mutants: Sequence[tuple[int, Mutant]],
    keys: dict[Mutant, str],
    out: Path,
    seed: int,
    jobs: int,
    gpu: bool,
) -> None:
    """Judge the mutants side by side and append a row for each."""
    trees: Queue[Path] = Queue()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        for i in range(jobs):
            trees.put(copy_tree(Path(folder) / str(i)))

        def with_tree(work):  # type: ignore[no-untyped-def]
            tree = trees.get()
            try:
                return work(tree)
            finally:
                trees.put(tree)

        packages = sorted({mutant.package for _, mutant in mutants})
        with ThreadPoolExecutor(jobs) as pool:
            measured = pool.map(
                lambda p: with_tree(lambda tree: measure_baseline(tree, p, gpu)), packages
            )
            baselines = dict(zip(packages, measured, strict=True))
            print({p: f"{b.seconds:.0f} s" for p, b in baselines.items()}, flush=True)

            def one(item: tuple[int, Mutant]) -> dict[str, Any]:
                number, mutant = item
                found = with_tree(lambda tree: judge(mutant, tree, baselines[mutant.package], gpu))
                about = {"seed": seed, "number": number, "key": keys[mutant], **asdict(mutant)}
                return about | found

            for done in as_completed([pool.submit(one, item) for item in mutants]):
                row = done.result()
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
    if todo:
        run(todo, keys, given.out, given.seed, given.jobs, given.gpu)
        rows = {row["key"]: row for row in map(json.loads, given.out.read_text().splitlines())}
    print(summarize([rows[keys[mutant]] for _, mutant in mine]))


if __name__ == "__main__":
    main()
