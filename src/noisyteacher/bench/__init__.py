"""Recipes, the protocol they run under, their results, and tables and figures made from those."""

from noisyteacher.bench.recipe import Recipe
from noisyteacher.bench.results import Row, append_row, merge, read_rows
from noisyteacher.bench.runner import run_recipe

__all__ = ["Recipe", "Row", "append_row", "merge", "read_rows", "run_recipe"]
