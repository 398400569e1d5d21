"""Recipes of experiments, their protocol and results, and tables and figures made from them."""

from noisyteacher.bench.protocol import run_recipe
from noisyteacher.bench.recipe import Arm, Generation, Recipe
from noisyteacher.runs import Row, append_row, merge, read_rows

__all__ = [
    "Arm",
    "Generation",
    "Recipe",
    "Row",
    "append_row",
    "merge",
    "read_rows",
    "run_recipe",
]


def __dir__() -> list[str]:
    return __all__
