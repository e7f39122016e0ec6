"""Rows under a schema: cells become numbers and codes, and go back."""

from skdpsynth.tables._cells import numbers_of
from skdpsynth.tables._encoder import MixedTypeEncoder, encode
from skdpsynth.tables._findings import Findings, Violations, count_violations, findings_of
from skdpsynth.tables._forest import KEY_OF_ORDER, Forest, LinkedFormat, check_tables, findings_of_links, most_of, open_forest, read_forest
from skdpsynth.tables._given_cells import Evidence, IncompleteRows, allowed_cells, with_all
from skdpsynth.tables._open import (
    ClipToBounds,
    ReadNumbers,
    ReadValues,
    check_enough,
    close_schema,
    collect_arrays,
    columns_of,
    columns_without_bounds,
    continue_numbers,
    continue_table,
    infers_dtypes,
    open_columns,
    open_numbers,
    read_column,
    read_columns,
    reading_options,
    schema_of_box,
    split_under,
    start_table,
    with_bounds,
    with_levels,
    with_placeholder_kinds,
)
from skdpsynth.tables._points import PointGrid
from skdpsynth.tables._table import TableFormat, check_dtypes, name_table_in_errors
