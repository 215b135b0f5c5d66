"""Helpers shared by the studies."""
