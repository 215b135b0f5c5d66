"""Figures and theorems of the paper that are measured without a table of recipes."""
