"""The command that is running, as its user typed it."""

from __future__ import annotations

import shlex
import sys


def this_command() -> str:
    """Shell text that starts the same verb again."""
    return shlex.join(["noisyteacher", *sys.argv[1:]])
