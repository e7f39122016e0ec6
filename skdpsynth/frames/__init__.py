"""Tables as callers have them: in memory, in files, in databases, or spread over workers."""

from skdpsynth.frames._csv import MISSING_WORDS, detect_options, is_unicode
from skdpsynth.frames._dtypes import (
    INFERRED,
    Backend,
    Cell,
    Column,
    Table,
    cast,
    decimals_in,
    decimals_out,
    frame_of,
    holds_some,
    is_pandas_column,
    narwhals_dtype,
    pandas_dtype,
    pandas_dtype_name,
    pandas_numbers,
    parse_dtype,
    plain_name,
    range_of,
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
from skdpsynth.frames._open_source import open_source
from skdpsynth.frames._partitions import Packed, pack
from skdpsynth.frames._privacy_units import (
    KEY_OF_CHOICE,
    FirstRows,
    LabelNumbers,
    RowHash,
    Unit,
    bound_contributions,
    check_length,
    drop_unit,
    label_list,
    name_of_unit,
    siphash,
    split_units,
)
from skdpsynth.frames._sheets import declared_columns
from skdpsynth.frames._source import (
    Chunk,
    ChunkedSource,
    InMemory,
    Rows,
    Source,
    concatenate,
    n_rows_of,
    rebatch,
    require_package,
    take_rows,
)
from skdpsynth.frames._table_kind import (
    NamedArray,
    TableKind,
    as_chunk,
    as_float_matrix,
    as_rows,
    column_names,
    dense_chunks,
    dtype_advice,
    eager_frame,
    is_arrow,
    is_chunk,
    is_pandas,
    make_frame,
    split_columns,
    table_of_numbers,
    to_native,
    without_rows,
)
