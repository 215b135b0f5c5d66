"""Figures from the files that experiments leave behind; no model is loaded or trained here."""
