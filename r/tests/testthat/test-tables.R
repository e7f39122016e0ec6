n <- 40
gap <- rep(c(FALSE, FALSE, FALSE, TRUE), n / 4)
holey <- function(x) replace(x, gap, NA)

full <- data.frame(
  flag = rep(c(TRUE, FALSE), n / 2),
  whole = seq_len(n),
  number = seq_len(n) / 3,
  word = rep(c("x", "NA", "é", "None"), n / 4),
  level = factor(rep(c("b", "a"), n / 2), levels = c("b", "a")),
  stage = factor(rep(c("low", "high"), n / 2), levels = c("low", "high"), ordered = TRUE),
  day = as.Date("1969-12-30") + seq_len(n),
  time = as.POSIXct("2026-03-29 01:00:00", tz = "UTC") + 3600 * seq_len(n),
  stay = as.difftime(seq_len(n), units = "days")
)
kinds <- function() {
  dp_schema(list(
    flag = dp_column("Boolean", nullable = TRUE),
    whole = dp_column("Continuous", 0L, 100L, nullable = TRUE),
    number = dp_column("Continuous", 0, 100, nullable = TRUE),
    word = dp_column("Nominal", c("x", "NA", "é", "None"), nullable = TRUE),
    level = dp_column("Nominal", c("a", "b", "c"), nullable = TRUE),
    stage = dp_column("Ordinal", c("low", "middle", "high"), nullable = TRUE),
    day = dp_column("Date", "1969-01-01", "1971-01-01", nullable = TRUE),
    time = dp_column("DateTime", "2026-01-01", "2026-12-31", nullable = TRUE),
    stay = dp_column("Duration", 0L, 90L, resolution = "day", nullable = TRUE)
  ))
}

test_that("all classes come back as they went, with and without NA", {
  skip_without_python()
  for (table in list(full, as.data.frame(lapply(full, holey)))) {
    back <- as_r(as_pandas(table), kinds())
    expect_identical(lapply(back, class), lapply(table, class))
    expect_equal(back, table)
    expect_identical(is.na(back), is.na(table))
  }
})

test_that("dtypes follow from classes, whatever the cells hold", {
  skip_without_python()
  dtypes <- function(table) reticulate::py_str(as_pandas(table)$dtypes)
  expect_identical(dtypes(full), dtypes(as.data.frame(lapply(full, holey))))
})

test_that("a missing word is none of the words", {
  skip_without_python()
  table <- as_pandas(data.frame(word = c("NA", NA, "")))
  expect_equal(reticulate::py_to_r(table$isna()$sum()$sum()), 1)
  expect_identical(as_r(table)$word, c("NA", NA, ""))
})

test_that("times keep what the clock of their zone shows, also before 1970 and where clocks go forward", {
  skip_without_python()
  time <- as.POSIXct(c("2026-03-29 01:30:00", "2026-03-29 03:30:00", "1912-06-23 12:00:00"), tz = "Europe/Vienna")
  back <- as_r(as_pandas(data.frame(time = time)))$time
  expect_identical(format(back), format(time))
  expect_identical(attr(back, "tzone"), "UTC")
})

test_that("factors lose no level and no order, and NA as a level is a missing cell", {
  skip_without_python()
  level <- addNA(factor(c("z", "a", NA), levels = c("z", "unused", "a")))
  back <- as_r(as_pandas(data.frame(level = level)))$level
  expect_identical(back, factor(c("z", "a", NA), levels = c("z", "unused", "a")))
})

test_that("what has no counterpart is refused in a sentence that names the column", {
  skip_without_python()
  wide <- data.frame(id = structure(c(1, 2), class = "integer64"))
  expect_error(as_pandas(wide), "column 'id' must be .*, not integer64; convert it")
  expect_error(as_pandas(data.frame(z = 1i)), "column 'z'")
})

test_that("whole numbers beyond those of R come back as doubles", {
  skip_without_python()
  pandas <- reticulate::import("pandas", convert = FALSE)
  expect_identical(as_r(pandas$DataFrame(list(n = list(2^40, 1)))$astype("int64"))$n, c(2^40, 1))
})

test_that("one row, no row and one column are tables", {
  skip_without_python()
  for (table in list(full[1, ], full[0, ], full[1:3, "word", drop = FALSE])) {
    rownames(table) <- NULL
    expect_equal(as_r(as_pandas(table), kinds()), table, ignore_attr = nrow(table) == 0)
  }
})

test_that("synthetic tables have the classes of the data, levels of the schema, and NA where it says so", {
  skip_without_python()
  table <- as.data.frame(lapply(full[rep(seq_len(n), 50), ], function(x) replace(x, rep(gap, 50), NA)))
  model <- dp_fit(table, kinds(), epsilon = 5, delta = 1e-6)
  synthetic <- dp_sample(model, 500)
  expect_identical(lapply(synthetic, class), lapply(table, class))
  expect_identical(levels(synthetic$level), c("a", "b", "c"))
  expect_identical(levels(synthetic$stage), c("low", "middle", "high"))
  expect_true(all(colMeans(is.na(synthetic)) > 0.1))
  expect_true(all(synthetic$word %in% c("x", "NA", "é", "None", NA)))
  expect_identical(units(synthetic$stay), "days")
})
