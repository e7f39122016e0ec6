skip_without_python <- function() {
  testthat::skip_if_not(dp_available(), "Python has no skdpsynth, or no pandas")
}
