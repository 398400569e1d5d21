"""Mutants: the source with one thing changed, drawn at random with a seed.

They are drawn evenly over the packages, and within a package evenly over the operators that apply
to it. Messages, annotations, docstrings and decorators are never mutated, nor are files that only
draw figures or print tables. ``mutation.py`` runs the tests against them.
"""

from __future__ import annotations

import ast
import hashlib
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

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
    statement: tuple[int, int]  # the first and the last line of what is executed with it
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
        self._statement = (1, 1)
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
            self._statement,
            operator,
            start,
            end,
            before,
            after,
        )
        self.found.append(mutant)

    def visit(self, node: ast.AST) -> None:
        before = self._statement
        if isinstance(node, ast.stmt):
            inner = getattr(node, "body", None)
            last = inner[0].lineno - 1 if inner else node.end_lineno or node.lineno
            self._statement = (node.lineno, max(node.lineno, last))
        super().visit(node)
        self._statement = before

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


@cache
def mutants_of(package: str) -> tuple[Mutant, ...]:
    """Every mutant of a package, in the order of its files."""
    base, found = ROOT / "src/noisyteacher", list[Mutant]()
    for path in sorted((base / package).rglob("*.py")):
        name = path.relative_to(base).as_posix()
        if name in LEFT_OUT or path.name == "__init__.py":
            continue
        source = path.read_bytes()
        finder = _Finder(package, name, source)
        finder.visit(ast.parse(source))
        found += finder.found
    return tuple(found)


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
