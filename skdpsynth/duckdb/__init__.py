"""Counts inside DuckDB: SQL of the codes of columns, of which nothing but counts is fetched."""

from skdpsynth.duckdb._database import Database as Database
from skdpsynth.duckdb._sql import Query as Query
from skdpsynth.duckdb._sql import can_be_written as can_be_written
from skdpsynth.duckdb._sql import codes_of_cells as codes_of_cells
from skdpsynth.duckdb._sql import recode as recode
from skdpsynth.duckdb._workload import Classes as Classes
from skdpsynth.duckdb._workload import Clock as Clock
from skdpsynth.duckdb._workload import Cuts as Cuts
from skdpsynth.duckdb._workload import Joint as Joint
from skdpsynth.duckdb._workload import Values as Values
from skdpsynth.duckdb._workload import choose_joint_tables as choose_joint_tables
