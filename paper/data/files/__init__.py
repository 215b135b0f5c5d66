"""Readers of the user's own files."""
