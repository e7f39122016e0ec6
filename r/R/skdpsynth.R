#' Differentially private synthetic data, from Python's skdpsynth
#'
#' Each function makes one call of the Python library, and turns tables into
#' data frames. Whatever has no function here is reached by
#' `reticulate::import("skdpsynth")`, with [as_pandas()] and [as_r()] for tables.
#'
#' The promise of privacy, its relation and its unit are those of the library:
#' see its pages. Noise is drawn in Python, from the operating system.
#' `set.seed()` has no influence on it.
#'
#' @keywords internal
"_PACKAGE"

python <- function(module = "skdpsynth") {
  reticulate::import(module, convert = FALSE)
}

#' Fit a synthesizer
#'
#' @param data A data frame; the path of a CSV or Parquet file; or a named list
#'   of data frames that hang on each other, the root first.
#' @param schema Public facts about the columns: the path of a YAML file, or what
#'   [dp_schema()] returns. For a list of data frames: the path of a file that has
#'   `tables:`.
#' @param epsilon,delta The whole budget of this fit.
#' @param ... Other parameters of the estimator, such as
#'   `neighboring = "add_or_remove_one"`, `stratify = "target"`, or
#'   `accountant = dp_budget(...)`. Write whole numbers as 8L.
#' @param unit Name of the column that says whose row it is, where one person has
#'   several rows.
#' @param estimator Name of a class of the library. `NULL`:
#'   "LatentFactorSynthesizer", or "LinkedTablesSynthesizer" for several tables.
#' @return The fitted estimator, a Python object. It holds no row of `data`.
#' @examples
#' if (dp_available()) {
#'   people <- data.frame(age = sample(18:90, 2000, TRUE), smokes = runif(2000) < 0.3)
#'   schema <- dp_schema(list(age = c(18L, 99L), smokes = c(FALSE, TRUE)))
#'   model <- dp_fit(people, schema, epsilon = 1)
#'   head(dp_sample(model))
#'   dp_ledger(model)
#' }
#' @export
dp_fit <- function(data, schema, epsilon = 1, delta = 0, ..., unit = NULL, estimator = NULL) {
  several <- is.list(data) && !is.data.frame(data)
  if (is.null(estimator)) {
    estimator <- if (several) "LinkedTablesSynthesizer" else "LatentFactorSynthesizer"
  }
  table <- if (several) reticulate::r_to_py(lapply(data, as_pandas)) else as_pandas(data)
  model <- python()[[estimator]](schema, epsilon = epsilon, delta = delta, ...)
  if (is.null(unit)) model$fit(table) else model$fit(table, unit = unit)
}

#' Draw synthetic rows
#'
#' Samples are free: they cost no privacy, as many as you like.
#'
#' @param model What [dp_fit()] or [dp_load()] returned.
#' @param n Number of rows (of the root, where there are several tables). `NULL`: as
#'   many as the data had.
#' @param ... Other parameters of the method `sample`, such as
#'   `conditions = list(sex = "female")`.
#' @return A data frame with the columns of the data: factors with the levels of the
#'   schema, dates, and `NA` where cells may be missing. For several tables a named
#'   list of data frames, with fresh keys.
#' @export
dp_sample <- function(model, n = NULL, ...) {
  n <- if (is.null(n)) NULL else as.integer(n)
  as_r(model$sample(n, ...), schema_of(model))
}

schema_of <- function(model) {
  for (name in c("schemas_", "schema_")) {
    if (reticulate::py_has_attr(model, name)) return(model[[name]])
  }
  NULL
}

#' State public facts about columns
#'
#' Never take them from the rows: bounds and levels are shown in the synthetic data.
#'
#' @param columns A named list. `c(18L, 99L)`: whole numbers in these bounds;
#'   `c(0, 1)`: numbers in these bounds; two dates: dates between them; text or logical
#'   values: levels; or what [dp_column()] returns.
#' @param rules A list of rules: text such as "admitted <= discharged", or what
#'   [dp_rule()] returns.
#' @return A schema of the library, a Python object. Its method `to_yaml(path)` writes
#'   it to a file.
#' @examples
#' if (dp_available()) {
#'   dp_schema(
#'     list(
#'       age = c(18L, 99L),
#'       sex = c("female", "male"),
#'       pregnant = c(FALSE, TRUE),
#'       weight = dp_column("Continuous", 2, 300, nullable = TRUE),
#'       admitted = as.Date(c("2025-01-01", "2025-12-31"))
#'     ),
#'     rules = list(dp_rule("Impossible", list(sex = "male", pregnant = TRUE)))
#'   )
#' }
#' @export
dp_schema <- function(columns, rules = list()) {
  python("skdpsynth.domain")$Schema(lapply(columns, fact), rules = as.list(rules))
}

#' State the kind of one column, or a rule between columns
#'
#' @param kind Name of a class in `skdpsynth.domain`: a kind of column, such as
#'   "Continuous", "Ordinal", "Nominal", "Boolean", "Date", "DateTime", "Duration" or
#'   "Identifier"; or a rule, such as "Impossible" or "Determines".
#' @param ... Its parameters. Vectors of two numbers become bounds, other vectors
#'   lists of levels.
#' @return A Python object, for [dp_schema()].
#' @examples
#' if (dp_available()) {
#'   dp_column("Ordinal", c("none", "mild", "severe"), nullable = TRUE)
#'   dp_rule("Impossible", list(age = c(51L, 99L), pregnant = TRUE))
#' }
#' @export
dp_column <- function(kind, ...) {
  given <- lapply(list(...), function(x) if (is.list(x)) lapply(x, fact) else fact(x))
  do.call(python("skdpsynth.domain")[[kind]], given)
}

#' @rdname dp_column
#' @export
dp_rule <- dp_column

# R has no scalars: one value stands for itself, two numbers or dates are a tuple (bounds), other vectors a list (levels).
fact <- function(x) {
  if (!is.atomic(x)) return(x)
  is_bounds <- length(x) == 2 && (is.numeric(x) || inherits(x, "Date"))
  if (inherits(x, "Date")) x <- format(x)
  if (length(x) == 1) return(x)
  if (is_bounds) do.call(reticulate::tuple, as.list(x)) else as.list(x)
}

#' Open a budget that several fits share
#'
#' @param epsilon,delta The limit for all releases about these people.
#' @param ledger Path of a file that keeps the charges. `NULL`: this session only.
#' @param ... Other parameters of `PrivacyAccountant`, such as `dataset = "registry 2026"`.
#' @return A Python object, for the parameter `accountant` of [dp_fit()].
#' @export
dp_budget <- function(epsilon, delta = 0, ledger = NULL, ...) {
  python()$PrivacyAccountant(epsilon, delta, ledger = ledger, ...)
}

#' List what was spent, and on what
#'
#' @param x A fitted model, or a budget.
#' @return A data frame with a row for each charge. It holds no fact about the rows.
#' @export
dp_ledger <- function(x) {
  accountant <- if (reticulate::py_has_attr(x, "accountant_")) x$accountant_ else x
  as_r(accountant$to_frame())
}

#' Compare synthetic with real rows
#'
#' Reads the rows without protection: the result is as secret as they are.
#'
#' @param model A fitted model.
#' @param data The real rows.
#' @return A report of the library, a Python object. Print it.
#' @export
dp_evaluate <- function(model, data) {
  several <- is.list(data) && !is.data.frame(data)
  model$evaluate(if (several) reticulate::r_to_py(lapply(data, as_pandas)) else as_pandas(data))
}

#' Estimate a statistic with its confidence interval
#'
#' Costs no privacy. A textbook interval of synthetic rows would be far too narrow.
#'
#' @param model A fitted model.
#' @param statistic A function of a data frame (of a list of data frames, where
#'   there are several tables) that returns numbers, with names if you like.
#' @param level Probability that each interval holds the truth.
#' @param ... Other parameters of the method `interval`, such as `n_refits = 20L`.
#' @return A data frame with the columns `estimate`, `low`, `high` and `error`.
#' @export
dp_interval <- function(model, statistic, level = 0.95, ...) {
  schema <- schema_of(model)
  names <- NULL
  call <- function(table) {
    found <- statistic(as_r(table, schema))
    names <<- names(found)
    reticulate::np_array(as.double(found), dtype = "float64")
  }
  found <- model$interval(reticulate::py_func(call), level, ...)
  columns <- c("estimate", "low", "high", "error")
  values <- lapply(columns, function(name) as.double(reticulate::py_to_r(found[[name]])))
  data.frame(stats::setNames(values, columns), row.names = names)
}

#' Write a release card
#'
#' A page for those who get the data: what was released, what is promised, and what
#' is not protected. It is made of public facts.
#'
#' @param model A fitted model, or a budget.
#' @param path Where to write the page of HTML.
#' @param ... Other parameters of `skdpsynth.report.card`, such as `title = "..."`.
#' @return `path`, invisibly.
#' @export
dp_card <- function(model, path, ...) {
  python("skdpsynth.report")$card(model, ...)$save(path.expand(path))
  invisible(path)
}

#' Save a model, and load it
#'
#' @param model A fitted model.
#' @param path A file.
#' @return `dp_save`: `path`, invisibly. `dp_load`: the model.
#' @export
dp_save <- function(model, path) {
  model$save(path.expand(path))
  invisible(path)
}

#' @rdname dp_save
#' @export
dp_load <- function(path) {
  python()$load(path.expand(path))
}

#' Say whether Python has the library
#'
#' @return `TRUE` or `FALSE`.
#' @export
dp_available <- function() {
  reticulate::py_module_available("skdpsynth") && reticulate::py_module_available("pandas")
}
