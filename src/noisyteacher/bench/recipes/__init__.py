"""Recipes: plain functions that return a complete one."""
