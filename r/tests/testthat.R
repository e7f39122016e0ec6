library(testthat)
library(skdpsynth)

test_check("skdpsynth")
