"""Counts inside DuckDB: SQL of the codes of columns, of which nothing but counts is fetched."""

from skdpsynth.duckdb._database import Database, choose_joint_tables
from skdpsynth.duckdb._sql import Classes, Clock, Cuts, Query, Values, can_be_written, codes_of_cells, recode
