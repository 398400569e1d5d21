"""Methods as text: printed, parsed, and listed in the documents."""

from __future__ import annotations

import contextlib
import math
import re
import runpy
from dataclasses import MISSING, fields, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from method_lists import COMPOSED

from noisyteacher import losses
from noisyteacher.core.errors import InputError
from noisyteacher.methods import (
    ALL_METHODS,
    GCE,
    VID,
    Calibrated,
    Consistency,
    Fidelity,
    Method,
    PolyLoss,
    SelfTraining,
    SLaM,
    TaylorCE,
    Temperature,
    Vanilla,
    parse,
)

DOCS = Path(__file__).parents[2] / "docs"
TABLES = runpy.run_path(str(DOCS / "method_tables.py"))


@pytest.mark.parametrize(
    ("method", "text"),
    [
        (SLaM(), "SLaM()"),
        (SLaM(base=TaylorCE(2)), "SLaM(base=TaylorCE(2))"),
        (SLaM(base="taylor_ce"), "SLaM(base=TaylorCE(2))"),
        (SLaM(base=losses.TaylorCE(2)), "SLaM(base=TaylorCE(2))"),
        (SLaM(base=Vanilla()), "SLaM()"),
        (SLaM(base=PolyLoss(-1)), "SLaM(base=Poly1(-1.0))"),
        (SLaM(normalize="k-1", k=5), "SLaM(normalize='k-1', k=5)"),
        (Fidelity(beta=1.0, inner=SLaM()), "Fidelity(beta=1.0, inner=SLaM())"),
        (
            Temperature(t_a=1, t_b=2, inner=Vanilla()),
            "Temperature(t_a=1, t_b=2, inner=Vanilla())",
        ),
        (
            Consistency(inner=SLaM(hard=True, per_class=True)),
            "Consistency(inner=SLaM(hard=True, per_class=True))",
        ),
        (Consistency(inner=None), "Consistency(inner=None)"),
        (Calibrated(inner=TaylorCE(2)), "Calibrated(inner=TaylorCE(2))"),
        (PolyLoss(), "PolyLoss()"),
        (PolyLoss(-0.8, hard=True), "PolyLoss(epsilon=-0.8, hard=True)"),
    ],
)
def test_a_method_prints_as_it_reads(method: Method, text: str) -> None:
    assert repr(method) == text
    assert parse(text) == method


@pytest.mark.parametrize("method", COMPOSED, ids=repr)
def test_every_method_parses_from_its_name(method: Method) -> None:
    again = parse(repr(method))
    assert again == method
    assert repr(again) == repr(method)
    assert hash(again) == hash(method)


def test_positions_keywords_and_bare_names_are_understood() -> None:
    assert parse("TaylorCE(3)") == parse("TaylorCE(order=3)") == TaylorCE(3)
    assert parse(" SLaM ") == SLaM()
    assert parse("SLaM('poly1')") == SLaM(base=PolyLoss())
    assert parse("PolyLoss(+0.5, True)") == PolyLoss(0.5, hard=True)
    assert parse("Fidelity(2, inner=SLaM(base=GCE(0.5)))") == Fidelity(2.0, inner=SLaM(GCE(0.5)))
    assert parse("SLaM(base=CrossEntropy())") == SLaM()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("slam()", "did you mean SLaM"),
        ("Mixup()", "the methods are GoldOnly, Vanilla, TaylorCE"),
        ("SLaM(", "is not a method"),
        ("", "is not a method"),
        ("3", "is not a method"),
        ("Poly1(2.0)", "is not a method"),
        ("SLaM(alpha=1)", "SLaM has no field 'alpha'; it has base"),
        ("SLaM(**{'k': 2})", "SLaM has no field"),
        ("Vanilla(True, hard=True)", "hard is given twice"),
        ("Vanilla(True, True)", "at most 1 values, not 2"),
        ("Fidelity()", "Fidelity needs a value for beta"),
        ("Fidelity(beta=1.0, inner=SLaM)", r"write SLaM\(\)"),
        ("Vanilla(hard=1 + 1)", "neither a method nor a plain value"),
        ("Vanilla(hard=[True])", "neither a method nor a plain value"),
        ("SLaM(k=b'2')", "neither a method nor a plain value"),
        ("__import__('os').system('true')", "neither a method nor a plain value"),
        ("().__class__", "neither a method nor a plain value"),
        ("Vanilla(hard=__import__('os'))", "no method '__import__'"),
        ("Fidelity(beta=1e999)", "beta must be a finite number"),
        ("Vanilla\0", "is not a method"),
        ("(" * 500 + "SLaM" + ")" * 500, "is not a method"),
    ],
)
def test_other_text_is_refused_in_one_sentence(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        parse(text)
    assert str(caught.value).endswith(".")


# Of each setting: what is refused, the words for what is allowed, and what still is.
RANGES = {
    "TTM temperature": ((0, -1), "above 0", (0.1,)),
    "DKD alpha": ((-0.1,), "at least 0", (0,)),
    "DKD beta": ((-0.1,), "at least 0", (0,)),
    "DKD temperature": ((0, -1), "above 0", (0.1,)),
    "DKD warmup": ((-0.1, 1.1), "between 0 and 1", (0, 1)),
    "VID weight": ((-0.1,), "at least 0", (0,)),
    "VID layers": ((0, 2), "1 or 3", (1, 3)),
    "FixMatch threshold": ((-0.1, 1.1), "between 0 and 1", (0, 1)),
    "FixMatch weight": ((-0.1,), "at least 0", (0,)),
    "ConfidenceFilter threshold": ((-0.1, 1.1), "a number between 0 and 1", (0, 1)),
    "ConfidenceFilter precision": ((0, 1.1), "above 0 and at most 1", (0.1, 1)),
    "CutStat fraction": ((0, 1.1), "above 0 and at most 1", (0.1, 1)),
    "CutStat neighbours": ((1,), "at least 2", (2,)),
    "CutStat among": ((-1,), "a number of rows, or 0 for all", (0,)),
    "UPS positive_threshold": ((-0.1, 1.1), "between 0 and 1", (0, 1)),
    "UPS negative_threshold": ((-0.1, 1.1), "between 0 and 1", (0, 1)),
    "UPS positive_std": ((0, -1), "above 0", (0.1,)),
    "UPS negative_std": ((0, -1), "above 0", (0.1,)),
    "SelfTraining threshold": ((0, 1.1), "above 0 and at most 1", (0.1, 1)),
    "SelfTraining rounds": ((0,), "at least 1", (1,)),
    "SymmetricCE alpha": ((-0.1,), "at least 0", (0,)),
    "SymmetricCE beta": ((-0.1,), "at least 0", (0,)),
    "TruncatedGCE threshold": ((-0.1, 1), "at least 0 and below 1", (0, 0.9)),
    "TruncatedGCE start": ((-0.1, 1.1), "between 0 and 1", (0, 1)),
    "ForwardCorrection smoothing": ((-0.1,), "at least 0", (0,)),
    "PartialLabels top": ((0,), "at least 1", (1,)),
    "Weighted every": ((-1,), "a number of epochs, or 0 for once", (0,)),
    "Weighted neighbours": ((-1,), "a number of rows, or 0 for the default", (0,)),
    "Weighted max_weight": ((0, -1), "above 0", (0.1,)),
    "Fidelity beta": ((-0.1,), "at least 0", (0,)),
    "Consistency threshold": ((-0.1, 1.1), "between 0 and 1", (0, 1)),
    "Consistency weight": ((-0.1,), "at least 0", (0,)),
}


@pytest.mark.parametrize("setting", RANGES)
def test_every_setting_has_its_range(setting: str) -> None:
    (kind, name), (refused, words, allowed) = setting.split(), RANGES[setting]
    inner = ", inner=SLaM()" if kind in ("Fidelity", "Consistency") else ""
    for value in refused:
        told = re.escape(f"{kind}: {name} must be {words}")
        with pytest.raises(InputError, match=told):
            parse(f"{kind}({name}={value}{inner})")
    for value in allowed:
        assert getattr(parse(f"{kind}({name}={value}{inner})"), name) == value


# Of each annotation, values of another type.
OTHER_TYPES: dict[str, tuple[object, ...]] = {
    "bool": (1, "True", None),
    "int": (2.5, True, "2", None),
    "float": (True, "0.5", None, math.nan, math.inf),
    "str": (2, True, None),
}


@pytest.mark.parametrize("kind", ALL_METHODS, ids=lambda kind: kind.__name__)
def test_every_setting_has_its_type(kind: type[Method]) -> None:
    method = next(m for m in (*COMPOSED, SelfTraining()) if type(m) is kind)
    for field in fields(method):
        told = f"{kind.__name__}: {field.name} must be"
        for value in OTHER_TYPES.get(str(field.type), ()):
            with pytest.raises(InputError, match=told):
                replace(method, **{field.name: value})


@given(st.text(alphabet="SLaM()=,.0123'\"[]{}+-*TaylorCEVnidhr \n", max_size=40))
@settings(max_examples=200, deadline=None)
def test_no_text_does_worse_than_an_input_error(text: str) -> None:
    with contextlib.suppress(InputError):
        assert isinstance(parse(text), Method)


def grids() -> list[tuple[type[Method], str, tuple[object, ...]]]:
    return [
        (kind, name, values)
        for kind in ALL_METHODS
        for grid in (kind.grid, *kind.other_grids.values())
        for name, values in grid.items()
    ]


@pytest.mark.parametrize(("kind", "name", "values"), grids())
def test_every_value_of_a_grid_is_a_valid_setting(
    kind: type[Method], name: str, values: tuple[object, ...]
) -> None:
    needed = {f.name: 1.0 for f in fields(kind) if f.default is MISSING}
    for value in values:
        assert getattr(kind(**{**needed, name: value}), name) == value


def test_the_papers_grids() -> None:
    assert VID.grid["weight"] == (0.001, 0.1, 0.2, 0.5, 0.8, 1.0, 2.0, 10.0, 50.0, 100.0)
    assert VID.other_grids["imagenet"]["weight"] == (0.1, 0.3, 0.5)
    assert Temperature.grid["t_a"] == (0.01, 0.1, 0.5, 0.8, 1.0, 2.0, 5.0, 10.0, 100.0)
    assert TaylorCE.other_grids["imagenet"]["order"] == (1, 2, 3, 4, 5, 6, 10, 20, 50, 80, 100)
    assert SLaM.other_grids["imagenet"]["lower_bound"] == (0.55, 0.60, 0.65, 0.70)


def test_the_tables_name_every_method_and_say_everything() -> None:
    methods, settings = TABLES["methods_table"](), TABLES["settings_table"]()
    for kind in ALL_METHODS:
        line = next(x for x in methods.splitlines() if x.startswith(f"| `{kind.__name__}`"))
        assert kind.formula
        assert kind.reference
        assert line.count(" | ") >= 5
        assert f"| `{kind.__name__}(" in settings


def test_the_page_holds_the_tables_that_the_code_makes() -> None:
    text = (DOCS / "methods.md").read_text("utf-8")
    assert TABLES["update_text"](text) == text, "run: python docs/method_tables.py"
    assert TABLES["methods_table"]() in text
    assert TABLES["settings_table"]() in text
