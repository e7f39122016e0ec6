"""Counts inside DuckDB."""
