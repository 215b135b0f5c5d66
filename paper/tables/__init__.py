"""The recipes behind each table of the paper."""
