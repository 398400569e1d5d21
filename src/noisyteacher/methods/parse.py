"""Methods from text: what a method's repr prints, and what a user types on the command line."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import MISSING, fields
from difflib import get_close_matches
from typing import Any

from noisyteacher.core.errors import InputError
from noisyteacher.losses import BaseLoss, CrossEntropy, Poly1
from noisyteacher.methods.base import Method
from noisyteacher.methods.calibrated import Calibrated
from noisyteacher.methods.confidence_filter import ConfidenceFilter
from noisyteacher.methods.confident_pruning import ConfidentPruning
from noisyteacher.methods.consistency import Consistency
from noisyteacher.methods.cutstat import CutStat
from noisyteacher.methods.dkd import DKD
from noisyteacher.methods.fidelity import Fidelity
from noisyteacher.methods.fixmatch import FixMatch
from noisyteacher.methods.forward_correction import ForwardCorrection
from noisyteacher.methods.gce import GCE
from noisyteacher.methods.gold_only import GoldOnly
from noisyteacher.methods.partial_labels import PartialLabels
from noisyteacher.methods.poly import PolyLoss
from noisyteacher.methods.slam import SLaM
from noisyteacher.methods.symmetric import SymmetricCE
from noisyteacher.methods.taylor import TaylorCE
from noisyteacher.methods.temperature import Temperature
from noisyteacher.methods.truncated_gce import TruncatedGCE
from noisyteacher.methods.ttm import TTM
from noisyteacher.methods.ups import UPS
from noisyteacher.methods.vanilla import Vanilla
from noisyteacher.methods.vid import VID
from noisyteacher.methods.weighted import Weighted

# In the order of the documents: the paper's, the wrappers, the rivals.
ALL_METHODS: tuple[type[Method], ...] = (
    GoldOnly,
    Vanilla,
    SLaM,
    TaylorCE,
    PolyLoss,
    VID,
    Weighted,
    UPS,
    Fidelity,
    Temperature,
    Consistency,
    Calibrated,
    ForwardCorrection,
    GCE,
    SymmetricCE,
    DKD,
    TTM,
    PartialLabels,
    TruncatedGCE,
    ConfidenceFilter,
    ConfidentPruning,
    CutStat,
    FixMatch,
)
_METHODS = {method.__name__: method for method in ALL_METHODS}
# Base losses whose name is a method's too (TaylorCE, GCE) come as that method: SLaM takes both.
_BASES: dict[str, type[BaseLoss]] = {"CrossEntropy": CrossEntropy, "Poly1": Poly1}


def parse(text: str) -> Method:
    """The method that a text such as ``Consistency(inner=SLaM(hard=True))`` names.

    Names of methods and base losses, numbers, strings, True, False and None are understood, and
    nothing else: text is never run. ``SLaM`` alone is short for ``SLaM()``.
    """
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise InputError(
            f"{text!r} is not a method; write one like SLaM(hard=True) or "
            "Consistency(inner=Vanilla())."
        ) from None
    found = _value(ast.Call(tree, [], []) if isinstance(tree, ast.Name) else tree, text)
    if not isinstance(found, Method):
        raise InputError(f"{text!r} is not a method; the methods are {', '.join(_METHODS)}.")
    return found


def _value(node: ast.expr, text: str) -> Any:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float | str | None):
        return node.value
    if (
        isinstance(node, ast.UnaryOp)
        and isinstance(node.op, ast.USub | ast.UAdd)
        and isinstance(node.operand, ast.Constant)
        and isinstance(node.operand.value, int | float)
    ):
        return -node.operand.value if isinstance(node.op, ast.USub) else node.operand.value
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return _call(node.func.id, node, text)
    if isinstance(node, ast.Name):
        raise InputError(f"{text!r}: write {node.id}() with parentheses, or quote it as a string.")
    raise InputError(f"{text!r}: {ast.unparse(node)!r} is neither a method nor a plain value.")


def _call(name: str, node: ast.Call, text: str) -> Method | BaseLoss:
    kind: Callable[..., Method | BaseLoss] | None = _METHODS.get(name) or _BASES.get(name)
    if kind is None:
        close = get_close_matches(name.lower(), {m.lower() for m in _METHODS}, n=1)
        meant = [m for m in _METHODS if m.lower() in close]
        hint = f" (did you mean {meant[0]}?)" if meant else ""
        raise InputError(
            f"There is no method {name!r}{hint}; the methods are {', '.join(_METHODS)}."
        )
    known = [f.name for f in fields(kind)]  # type: ignore[arg-type]
    taken = dict(zip(known, (_value(arg, text) for arg in node.args), strict=False))
    if len(node.args) > len(known):
        raise InputError(f"{name} takes at most {len(known)} values, not {len(node.args)}.")
    for keyword in node.keywords:
        if keyword.arg not in known:
            raise InputError(
                f"{name} has no field {keyword.arg!r}; it has {', '.join(known) or 'none'}."
            )
        if keyword.arg in taken:
            raise InputError(f"{name}: {keyword.arg} is given twice.")
        taken[keyword.arg] = _value(keyword.value, text)
    required = [f.name for f in fields(kind) if f.default is MISSING and f.name not in taken]  # type: ignore[arg-type]
    if required:
        raise InputError(f"{name} needs a value for {', '.join(required)}.")
    return kind(**taken)
