people <- function(n) {
  age <- rep_len(18:89, n)
  data.frame(age = age, smokes = rep_len(c("no", "yes", "no"), n), old = age > 65)
}
facts <- function(...) {
  dp_schema(list(age = c(18L, 99L), smokes = c("no", "yes"), old = c(FALSE, TRUE)), ...)
}

test_that("short forms of columns are those of Python", {
  skip_without_python()
  schema <- dp_schema(list(a = c(18L, 99L), b = c(0, 1), c = c("x", "y"), d = as.Date(c("2025-01-01", "2025-12-31"))))
  expect_identical(
    reticulate::py_str(schema),
    paste0(
      "Schema({'a': Continuous(low=18, high=99, integer=True, nullable=False), ",
      "'b': Continuous(low=0.0, high=1.0, integer=False, nullable=False), ",
      "'c': Nominal(levels=('x', 'y'), nullable=False), 'd': Date(low='2025-01-01', high='2025-12-31', nullable=False)})"
    )
  )
})

test_that("rules hold in every synthetic row", {
  skip_without_python()
  rules <- list(dp_rule("Impossible", list(age = c(18L, 65L), old = TRUE)), dp_rule("Impossible", list(age = c(66L, 99L), old = FALSE)))
  synthetic <- dp_sample(dp_fit(people(2000), facts(rules = rules)), 3000)
  expect_identical(synthetic$old, synthetic$age > 65)
})

test_that("an infinite epsilon gives the shares of the data: no cell changes its level on the way", {
  skip_without_python()
  model <- dp_fit(people(3000), facts(), epsilon = Inf)
  synthetic <- dp_sample(model, 20000, random_state = 0L)
  expect_equal(mean(synthetic$smokes == "yes"), 1 / 3, tolerance = 0.05)
  expect_equal(mean(synthetic$age), mean(people(3000)$age), tolerance = 0.05)
})

test_that("intervals keep the names of the numbers, and hold them", {
  skip_without_python()
  model <- dp_fit(people(3000), facts(), epsilon = 2, delta = 1e-6)
  found <- dp_interval(model, function(table) c(age = mean(table$age), old = mean(table$old)), n_refits = 8L)
  expect_identical(dimnames(found), list(c("age", "old"), c("estimate", "low", "high", "error")))
  expect_true(all(found$low < found$estimate & found$estimate < found$high))
  expect_true(found["age", "low"] > 40 && found["age", "high"] < 70)
})

test_that("one budget refuses what would exceed it, and lists what was spent", {
  skip_without_python()
  budget <- dp_budget(1.5, ledger = tempfile(fileext = ".db"))
  dp_fit(people(500), facts(), epsilon = 1, accountant = budget)
  expect_error(dp_fit(people(500), facts(), epsilon = 1, accountant = budget), "only 0.5 of 1.5 remains")
  expect_equal(sum(dp_ledger(budget)$epsilon), 1)
})

test_that("a saved model, a card and a comparison are those of the library", {
  skip_without_python()
  model <- dp_fit(people(1000), facts())
  path <- dp_save(model, tempfile(fileext = ".skdp"))
  expect_identical(dp_sample(dp_load(path), 20, random_state = 1L), dp_sample(model, 20, random_state = 1L))
  expect_match(reticulate::py_str(dp_evaluate(model, people(1000))), "do not publish")
  skip_if_not(reticulate::py_module_available("jinja2") && reticulate::py_module_available("matplotlib"))
  card <- dp_card(model, tempfile(fileext = ".html"), title = "People of R")
  expect_true(any(grepl("People of R", readLines(card, warn = FALSE))))
})

test_that("a file is fitted as it lies, with a schema in a file", {
  skip_without_python()
  skip_if_not(reticulate::py_module_available("yaml") && reticulate::py_module_available("pyarrow"))
  folder <- tempfile()
  dir.create(folder)
  write.csv(people(1000)[c("age", "smokes")], file.path(folder, "people.csv"), row.names = FALSE)
  yaml <- c("columns:", "- {name: age, kind: continuous, bounds: [18, 99]}", "- {name: smokes, kind: nominal, levels: ['no', 'yes']}")
  writeLines(yaml, file.path(folder, "people.yaml"))
  synthetic <- dp_sample(dp_fit(file.path(folder, "people.csv"), file.path(folder, "people.yaml")), 10)
  expect_identical(vapply(synthetic, class, ""), c(age = "integer", smokes = "character"))
})

test_that("several rows of one person, and tables that hang on each other", {
  skip_without_python()
  visits <- cbind(people(600), person = rep(1:300, each = 2))
  model <- dp_fit(visits, facts(), unit = "person", max_rows_per_unit = 2L)
  expect_identical(unique(dp_ledger(model)$unit), "person, at most 2 rows")
  skip_if_not(reticulate::py_module_available("yaml"))
  yaml <- c(
    "tables:", "- name: house", "  columns:", "  - {name: region, kind: nominal, levels: [north, south]}",
    "- name: person", "  of: house", "  key: house_id", "  most: 4", "  least: 1", "  columns:",
    "  - {name: age, kind: continuous, bounds: [0, 110]}"
  )
  writeLines(yaml, path <- tempfile(fileext = ".yaml"))
  tables <- list(
    house = data.frame(house_id = 1:400, region = factor(rep(c("north", "south"), 200))),
    person = data.frame(house_id = rep(1:400, each = 2), age = rep_len(0:90, 800))
  )
  model <- dp_fit(tables, path, epsilon = 2, delta = 1e-6)
  north <- function(tables) c(age = mean(tables$person$age), north = mean(tables$house$region == "north"))
  expect_identical(rownames(dp_interval(model, north, n_refits = 8L)), c("age", "north"))
  synthetic <- dp_sample(model, 50)
  expect_identical(names(synthetic), c("house", "person"))
  expect_true(all(synthetic$person$house_id %in% synthetic$house$house_id))
  expect_identical(levels(synthetic$house$region), c("north", "south"))
})
