"""Methods from text: what a method's repr prints, and what a user types on the command line."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import MISSING, fields
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

from noisyteacher.core.errors import InputError
from noisyteacher.core.user_code import import_user_module
from noisyteacher.losses import BaseLoss
from noisyteacher.methods import distillation, filters, plain, robust, slam, wrappers
from noisyteacher.methods.method import REGISTRY, Method

__all__ = ["ALL_METHODS", "import_method", "parse"]

# The methods of this package, family by family, in the order of the documents.
ALL_METHODS: tuple[type[Method], ...] = tuple(
    method
    for family in (plain, slam, distillation, robust, filters, wrappers)
    for method in REGISTRY.values()
    if method.__module__ == family.__name__
)


def parse(text: str) -> Method:
    """The method with this repr, such as ``Consistency(inner=SLaM(hard=True))``.

    The text may contain names of methods, including your own once their class is defined, names of
    base losses, numbers, strings, True, False, None and tuples of these, and nothing else: it is
    never run as code. ``SLaM`` is short for ``SLaM()``.
    """
    # Keyed by the classes too: a class that is defined later, or again, changes what text means.
    return _parse(text, (*REGISTRY.values(), *BaseLoss.__subclasses__()))


def import_method(text: str) -> Method:
    """``parse`` for the command line: ``my_losses:MyLoss(beta=2)`` first imports ``my_losses``."""
    module, colon, rest = text.partition(":")
    if colon and all(part.isidentifier() for part in module.strip().split(".")):
        import_user_module(module.strip())
        return parse(rest)
    return parse(text)


@lru_cache(maxsize=4096)
def _parse(text: str, known: tuple[type, ...]) -> Method:
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise InputError(
            f"{text!r} is not a method; write one like SLaM(hard=True) or "
            "Consistency(inner=Vanilla())."
        ) from None
    found = _value(ast.Call(tree, [], []) if isinstance(tree, ast.Name) else tree, text)
    if not isinstance(found, Method):
        raise InputError(f"{text!r} is not a method; the methods are {_names()}.")
    return found


def _names() -> str:
    """All methods: ours in the order of the documents, then the user's own."""
    ours = (method.__name__ for method in ALL_METHODS)
    return ", ".join(dict.fromkeys([*ours, *REGISTRY]))


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
    if isinstance(node, ast.Tuple):
        return tuple(_value(part, text) for part in node.elts)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return _call(node.func.id, node, text)
    if isinstance(node, ast.Name):
        raise InputError(f"{text!r}: write {node.id}() with parentheses, or quote it as a string.")
    raise InputError(f"{text!r}: {ast.unparse(node)!r} is neither a method nor a plain value.")


def _call(name: str, node: ast.Call, text: str) -> Method | BaseLoss:
    # Base losses whose name is a method's too (TaylorCE, GCE) come as that method: SLaM takes both.
    bases = {kind.__name__: kind for kind in BaseLoss.__subclasses__()}
    kind: Callable[..., Method | BaseLoss] | None = REGISTRY.get(name) or bases.get(name)
    if kind is None:
        close = get_close_matches(name.lower(), {m.lower() for m in REGISTRY}, n=1)
        meant = [m for m in REGISTRY if m.lower() in close]
        hint = f" (did you mean {meant[0]}?)" if meant else ""
        raise InputError(
            f"There is no method {name!r}{hint}; the methods are {_names()}. One of your own must "
            "be imported first."
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
