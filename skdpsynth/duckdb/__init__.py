"""Counts inside DuckDB: SQL of the codes of columns, of which nothing but counts is fetched."""

from skdpsynth.duckdb._sql import Classes, Clock, Cuts, Database, Query, Values, can_be_written, choose_joint_tables, codes_of_cells, recode
