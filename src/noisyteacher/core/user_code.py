"""Modules of the user's own, named on the command line as ``module:name``."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

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
