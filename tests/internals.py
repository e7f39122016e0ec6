"""The private places that tests look into, wherever they are: a module by its last name, and what a module defines by its name."""

import re
from functools import cache
from importlib import import_module
from pathlib import Path

import skdpsynth

PACKAGE = Path(skdpsynth.__file__).parent
OTHERS = {  # what several modules define, and what has another name here: its module, and its name there
    "_search": "model_selection._search:",
    "_marginals": "metrics._marginals:",
    "_linked": "statistics._linked:",
    "_histories": "models._histories:",
    "_Descent": "models._wide_factors:_Descent",
    "_NEAR": "continual._square_root:_NEAR",
    "_uniform_below": "privacy._selection:_uniform_below",
    "Codes": "tables._cells:Codes",
    "rules_learned": "auditing._audit:learn_rule",
    "methods_learned": "cli._synthesize:modeled_schema",
    "placement_Numbers": "measures._placement:PointNumbers",
    "contrasts_expected": "models._measurements:posterior_means",
    "level_groups_expected": "models._quantile_bins:posterior_counts",
    "linked_columns_Numbers": "models._within_bin:NumberColumn",
    "mixture_Part": "models._mixture:Part",
    "columns_of_fields": "ui._columns:columns_of",
    "dask_Part": "frames._partitions:Part",
}


@cache
def _places():
    """Return name -> the modules that have it, and its name there."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")
        if module == "__init__":
            continue
        found.setdefault(module.rpartition(".")[2], []).append(f"{module}:")
        for names in re.findall(r"^(?:class |def )?(\w[\w, ]*?)(?:[(:\[]| =)", path.read_text(encoding="utf-8"), flags=re.MULTILINE):
            for name in {*names.split(", ")}:
                found.setdefault(name, []).append(f"{module}:{name}")
    return {name: sorted({*places}) for name, places in found.items()}


def __getattr__(name):
    places = [OTHERS[name]] if name in OTHERS else _places().get(name, [])
    if len(places) != 1:
        raise AttributeError(f"{name} is in {places or 'no module'}; name one in OTHERS")
    module, _, attribute = places[0].partition(":")
    found = import_module(f"skdpsynth.{module}")
    return getattr(found, attribute) if attribute else found
