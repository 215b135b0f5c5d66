"""The reproduction of the paper: its tables, figures and theorems with the published numbers."""
