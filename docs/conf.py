"""Sphinx configuration; built by ``make docs``. Nothing that a page shows needs a network."""

import sys
from pathlib import Path

import skdpsynth

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "skdpsynth"
author = "the skdpsynth developers"
copyright = "2026, the skdpsynth developers"
release = version = skdpsynth.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "numpydoc",
    "myst_parser",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "api_pages",
    "api_groups",
    "contract",
    "gallery",
    "mathml",
    "words",
]
exclude_patterns = ["_build", "_ext", "_static"]
templates_path = ["_templates"]
autodoc_typehints = "none"  # the docstrings say more
toc_object_entries_show_parents = "hide"
default_role = "py:obj"  # a name in single backticks links to it, where there is a page of it
smartquotes = False  # a "word" of a parameter is typed with straight ones
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3
autosummary_generate = True
# A function and a class that differ in case alone need two files, also where the file system does not tell them apart.
autosummary_filename_map = {"skdpsynth.privacy.mechanism": "skdpsynth.privacy.mechanism-function"}
numpydoc_show_class_members = False  # api_pages lists them
numpydoc_class_members_toctree = False
numpydoc_xref_param_type = True
numpydoc_xref_ignore = "all"  # but the names that api_pages knows

html_theme = "pydata_sphinx_theme"
html_title = "skdpsynth"
html_math_renderer = "mathml"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False  # sources of code are linked from its pages
html_sidebars = {"index": []}
html_theme_options = {
    "show_prev_next": True,
    "navigation_with_keys": False,
    "header_links_before_dropdown": 7,
    "show_nav_level": 2,
    "show_toc_level": 2,
    "collapse_navigation": True,
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
}

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": "/plot_",
    "download_all_examples": False,
    "show_signature": False,
    "within_subsection_order": "gallery.AsNamed",
    "min_reported_time": 1e6,
    "reference_url": {"skdpsynth": None},
    "parallel": True,  # as many at once as sphinx is told by -j
    "backreferences_dir": "api/backreferences",
    "doc_module": ("skdpsynth",),
    "inspect_global_variables": False,
    "write_computation_times": False,
    "remove_config_comments": True,
}
