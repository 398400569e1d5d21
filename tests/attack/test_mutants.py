"""The mutants that the campaign draws: reproducible, parseable, and never a message."""

from __future__ import annotations

import ast
import textwrap

import mutants
import mutation


def _found(source: str) -> set[tuple[str, str, str]]:
    content = textwrap.dedent(source).encode()
    finder = mutants._Finder("noise", "made_up.py", content)
    finder.visit(ast.parse(content))
    return {(m.operator, m.before, m.after) for m in finder.found}


def test_each_operator_finds_its_sites() -> None:
    found = _found(
        """
        def f(x, y, n):
            if not x < y and n:
                g(x, y)
            total = x + 2
            total += 1
            return [h[i : i + n] for i in range(n)], -x, 0.5, True
        """
    )
    assert {
        ("negated condition", "not x < y and n", "not (not x < y and n)"),
        ("dropped not", "not x < y", "(x < y)"),
        ("comparison", "x < y", "(x <= y)"),
        ("and/or", "not x < y and n", "(not x < y or n)"),
        ("removed statement", "g(x, y)", "pass"),
        ("removed statement", "total += 1", "pass"),
        ("swapped arguments", "g(x, y)", "(g(y, x))"),
        ("arithmetic", "x + 2", "(x - 2)"),
        ("constant", "2", "(3)"),
        ("constant", "2", "(1)"),
        ("off by one", "i + n", "(i + n) + 1"),
        ("off by one", "n", "(n) - 1"),
        ("dropped minus", "-x", "(x)"),
        ("constant", "0.5", "(1.0)"),
        ("constant", "True", "False"),
    } <= found


def test_messages_annotations_docstrings_and_decorators_are_left_alone() -> None:
    source = '''
    @dataclass(frozen=True)
    class C:
        """Docstring with 1 < 2."""

        def f(self, x: int | float = None) -> int | None:
            """Another."""
            warn(f"{x + 1} rows", stacklevel=3)
            raise InputError("at most " + str(x + 1))

        def __repr__(self):
            return "C" * 2
    '''
    assert _found(source) == set()


def test_a_seed_draws_the_same_mutants_evenly_over_packages() -> None:
    drawn = mutants.draw(30, 7, mutants.PACKAGES)
    assert drawn == mutants.draw(30, 7, mutants.PACKAGES)
    assert drawn != mutants.draw(30, 8, mutants.PACKAGES)
    assert len(set(drawn)) == 30
    assert {m.package for m in drawn} == set(mutants.PACKAGES)
    for mutant in drawn:
        source = (mutants.ROOT / "src/noisyteacher" / mutant.file).read_bytes()
        assert source[mutant.start : mutant.end].decode() == mutant.before
        assert ast.dump(ast.parse(mutant.apply(source))) != ast.dump(ast.parse(source))


def test_the_summary_counts_timeouts_as_deaths_and_names_survivors() -> None:
    row = {"number": 3, "file": "a.py", "line": 2, "operator": "constant"}
    row |= {"before": "1", "after": "(2)"}
    told = mutation.summarize([row | {"outcome": o} for o in ("killed", "timeout", "survived")])
    assert told.splitlines() == [
        "2 of 3 mutants died (66.7 %).",
        "survived 3: a.py:2 constant: 1 -> (2)",
    ]
