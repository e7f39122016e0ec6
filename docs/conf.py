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
templates_path = ["_templates"]
autodoc_typehints = "none"  # the docstrings say more
toc_object_entries_show_parents = "hide"
default_role = "py:obj"  # a name in single backticks links to it, where there is a page of it
smartquotes = False  # a "word" of a parameter is typed with straight ones
myst_enable_extensions = ["dollarmath"]
autosummary_generate = True
# A function and a class that differ in case alone need two files, also where the file system does not tell them apart.
autosummary_filename_map = {"skdpsynth.privacy.mechanism": "skdpsynth.privacy.mechanism-function"}
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

html_theme = "pydata_sphinx_theme"
html_title = "skdpsynth"
_ALONE = (
    "index",
    "schemas",
    "methods",
    "ledger",
    "budgets",
    "federated",
    "sharp_edges",
    "benchmarks",
    "mechanism",
    "choosing",
)  # no pages below them
html_sidebars = {page: [] for page in _ALONE}
html_theme_options = {"show_prev_next": False, "navigation_with_keys": False, "header_links_before_dropdown": 7}

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": "/plot_",
    "download_all_examples": False,
    "show_signature": False,
    "min_reported_time": 1e6,
    "reference_url": {"skdpsynth": None},
}
