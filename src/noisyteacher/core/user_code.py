"""Modules that are imported by name: the user's own, ``module:name``, and optional libraries."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from noisyteacher.core.errors import InputError


def import_user_module(name: str) -> ModuleType:
    """Import a module by its dotted name, from the current folder too, as ``python -m`` does."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except InputError:
        raise
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise InputError(f"The module {name} cannot be imported: {error}.") from error


def import_named(text: str) -> Any:
    """The object that ``package.module:name`` names, imported from there."""
    module, _, name = text.partition(":")
    if not module or not name.isidentifier():
        raise InputError(f"Code of your own is named package.module:name, not {text!r}.")
    code = import_user_module(module)
    if not hasattr(code, name):
        raise InputError(f"{text} cannot be imported: there is no {name} in it.")
    return getattr(code, name)


def import_extra(module: str, extra: str, told: str) -> Any:
    """A library of an extra; ``told`` is what needs it, the beginning of the error without it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise InputError(
            f"{told}: install it with `pip install 'noisyteacher[{extra}]'`."
        ) from error
