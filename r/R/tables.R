#' Turn a data frame into one of pandas, and back
#'
#' The dtype of a column follows from its class alone, never from its cells: a column
#' of integers has the same dtype with and without `NA`. Factors keep their order.
#' Times are taken as a clock in their time zone shows them, and come back in UTC.
#'
#' @param data A data frame whose columns are logical, integer, double, character,
#'   factor, `Date`, `POSIXct`, `POSIXlt` or `difftime`. Paths and Python objects are
#'   returned as they are.
#' @param table A data frame of pandas, or a dict of such.
#' @param schema The schema of the table: it says which times are dates.
#' @return A data frame of pandas; a data frame of R, or a list of such.
#' @examples
#' if (dp_available()) {
#'   table <- data.frame(stage = factor(c("b", NA), levels = c("b", "a")), n = c(NA, 1L))
#'   as_pandas(table)
#'   as_r(as_pandas(table))
#' }
#' @export
as_pandas <- function(data) {
  if (is.character(data)) return(path.expand(data))
  if (!is.data.frame(data)) return(data)
  columns <- Map(column_to_python, as.list(data), names(data))
  names <- as.list(enc2utf8(names(data)))
  python("pandas")$DataFrame(reticulate::py_dict(names, unname(columns)))
}

#' @rdname as_pandas
#' @export
as_r <- function(table, schema = NULL) {
  if (inherits(table, "python.builtin.dict")) {
    names <- strings(table$keys())
    table <- stats::setNames(lapply(names, function(name) reticulate::py_get_item(table, name)), names)
  }
  if (is.list(table)) { # reticulate hands a dict to a function of R so
    return(Map(function(part, name) as_r(part, if (!is.null(schema)) reticulate::py_get_item(schema, name)), table, names(table)))
  }
  if (reticulate::py_has_attr(table, "to_pandas")) table <- table$to_pandas()
  if (!reticulate::py_has_attr(table, "columns")) return(reticulate::py_to_r(table))
  names <- strings(table$columns)
  columns <- lapply(names, function(name) column_to_r(reticulate::py_get_item(table, name), kind_in(schema, name)))
  n <- length(python("builtins")$range(python("builtins")$len(table)))
  structure(columns, names = names, class = "data.frame", row.names = .set_row_names(n))
}

strings <- function(values) {
  builtins <- python("builtins")
  as.character(reticulate::py_to_r(builtins$list(builtins$map(builtins$str, values))))
}

kind_in <- function(schema, name) {
  if (!is.null(schema)) schema$get(name)
}

is_kind <- function(kind, class) {
  !is.null(kind) && reticulate::py_to_r(kind$`__class__`$`__name__`) == class
}

array_of <- function(x, dtype) reticulate::np_array(as.array(x), dtype = dtype)

# -1: a missing cell
categorical <- function(codes, levels, ordered = FALSE) {
  codes <- array_of(ifelse(is.na(codes), -1L, codes - 1L), "int32")
  python("pandas")$Categorical$from_codes(codes, categories = as.list(enc2utf8(levels)), ordered = ordered)
}

column_to_python <- function(x, name) {
  pd <- python("pandas")
  if (inherits(x, "POSIXlt")) x <- as.POSIXct(x)
  kind <- if (is.object(x)) class(x)[1] else typeof(x)
  missing <- is.na(x)
  switch(kind,
    logical = pd$arrays$BooleanArray(array_of(x & !missing, "bool"), array_of(missing, "bool")),
    integer = pd$arrays$IntegerArray(array_of(replace(x, missing, 0L), "int64"), array_of(missing, "bool")),
    double = array_of(replace(x, missing, NaN), "float64"),
    character = {
      levels <- unique(x[!missing])
      categorical(match(x, levels), levels)$astype("object")
    },
    factor = ,
    ordered = {
      levels <- levels(x)[!is.na(levels(x))]
      categorical(match(as.character(x), levels), levels, is.ordered(x))
    },
    Date = pd$to_datetime(array_of(finite(floor(as.numeric(x))), "float64"), unit = "D"),
    POSIXct = pd$to_datetime(array_of(finite(clock(x)), "float64"), unit = "s"),
    difftime = pd$to_timedelta(array_of(finite(as.numeric(x, units = "secs")), "float64"), unit = "s"),
    stop(sprintf(
      "column '%s' must be logical, integer, double, character, factor, Date, POSIXct or difftime, not %s; convert it.",
      name, kind
    ), call. = FALSE)
  )
}

finite <- function(x) replace(x, !is.finite(x), NaN)

# Seconds since 1970 on a clock that shows the same time, but stands in UTC.
clock <- function(x) {
  parts <- as.POSIXlt(x)
  86400 * as.numeric(as.Date(parts)) + 3600 * parts$hour + 60 * parts$min + parts$sec
}

column_to_r <- function(series, kind) {
  dtype <- strings(list(series$dtype))
  numbers <- function(series) {
    as.vector(reticulate::py_to_r(series$to_numpy(dtype = "float64", na_value = NaN)))
  }
  if (dtype == "category") {
    codes <- numbers(series$cat$codes) + 1
    class <- c(if (reticulate::py_to_r(series$cat$ordered)) "ordered", "factor")
    return(structure(as.integer(replace(codes, codes == 0, NA)), levels = strings(series$cat$categories), class = class))
  }
  if (tolower(dtype) %in% c("bool", "boolean")) return(as.logical(numbers(series)))
  if (grepl("^u?int", tolower(dtype))) {
    x <- numbers(series)
    return(if (all(abs(x) <= .Machine$integer.max, na.rm = TRUE)) as.integer(x) else replace(x, is.nan(x), NA))
  }
  if (grepl("^float", tolower(dtype))) {
    x <- numbers(series)
    return(replace(x, is.nan(x), NA))
  }
  if (startsWith(dtype, "datetime64")) {
    seconds <- numbers(series$sub(python("pandas")$Timestamp(0L))$dt$total_seconds())
    seconds <- replace(seconds, is.nan(seconds), NA)
    return(if (is_kind(kind, "Date")) .Date(seconds / 86400) else .POSIXct(seconds, tz = "UTC"))
  }
  if (startsWith(dtype, "timedelta64")) {
    seconds <- numbers(series$dt$total_seconds())
    x <- as.difftime(replace(seconds, is.nan(seconds), NA), units = "secs")
    if (is_kind(kind, "Duration")) {
      unit <- c(day = "days", hour = "hours", minute = "mins")[reticulate::py_to_r(kind$resolution)]
      if (!is.na(unit)) units(x) <- unname(unit)
    }
    return(x)
  }
  codes <- python("pandas")$factorize(series)
  levels <- strings(reticulate::py_get_item(codes, 1L))
  at <- as.vector(reticulate::py_to_r(reticulate::py_get_item(codes, 0L))) + 1
  levels[replace(at, at == 0, NA)]
}
