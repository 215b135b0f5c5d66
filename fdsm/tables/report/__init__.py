"""The page of a model of a table: one HTML file that needs no other file and no network."""

from .page import Section, write_page

__all__ = ["Section", "write_page"]
