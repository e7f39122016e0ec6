"""Tables as callers have them: in memory, in files, in databases, or spread over workers."""

from skdpsynth.frames._contribution_bounding import KEY_OF_CHOICE, bound_contributions
from skdpsynth.frames._csv import MISSING_WORDS, detect_options, is_unicode
from skdpsynth.frames._dtypes import (
    INFERRED,
    cast,
    decimal_of,
    decimals_in,
    decimals_out,
    empty_frame,
    family_of,
    frame_of,
    holds_some,
    is_pandas_column,
    narwhals_dtype,
    number_dtype,
    numpy_dtype,
    other_numbers,
    pandas_dtype,
    pandas_dtype_name,
    pandas_numbers,
    plain_name,
    range_of,
    time_of,
    values_of,
    whole_dtype,
    without_categories,
)
from skdpsynth.frames._files import (
    ReadOptions,
    check_output_path,
    default_separator,
    files_at,
    kind_of_file,
    output_suffix,
    schema_of_parquet,
    suffix_of,
    write_table,
)
from skdpsynth.frames._numbers import NamedArray, as_float_matrix, as_rows, dense_chunks, dtype_advice, table_of_numbers
from skdpsynth.frames._open_source import open_source
from skdpsynth.frames._partitions import Packed, pack
from skdpsynth.frames._privacy_units import FirstRows, check_length, drop_unit, name_of_unit, split_units
from skdpsynth.frames._rows import Chunk, Rows, concatenate, concatenate_batches, n_rows_of, rebatch, take_rows
from skdpsynth.frames._sheets import declared_columns
from skdpsynth.frames._source import Source, require_package
from skdpsynth.frames._table_kind import (
    TableKind,
    as_chunk,
    column_names,
    eager_frame,
    is_arrow,
    is_chunk,
    is_pandas,
    make_frame,
    split_columns,
    to_native,
    without_rows,
)
