"""Sphinx configuration; built by ``make docs``."""

import skdpsynth

project = "skdpsynth"
author = "the skdpsynth developers"
copyright = "2026, the skdpsynth developers"
release = version = skdpsynth.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build"]
myst_enable_extensions = ["dollarmath"]
autosummary_generate = True
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

html_theme = "pydata_sphinx_theme"
html_title = "skdpsynth"
html_theme_options = {"show_prev_next": False, "navigation_with_keys": False}

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": "/plot_",
    "download_all_examples": False,
    "show_signature": False,
    "min_reported_time": 1e6,
    "reference_url": {"skdpsynth": None},
}
