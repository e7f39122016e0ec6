"""Areas in areas: a public tree."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from skdpsynth._validation import check_type, short_repr
from skdpsynth.domain._functional_dependencies import Determines
from skdpsynth.domain._kinds import Nominal, first_duplicate, is_name, list_names, plain_value
from skdpsynth.persistence import savable

WHOLE = "whole"  # the level above all others, in the keys of counts


@savable
@dataclass(frozen=True, repr=False)
class Hierarchy:
    """Areas in areas, such as tracts in counties in states: a public tree.

    Parameters
    ----------
    levels : list of columns
        Names of the columns that say where a row is, the largest areas first. Only the last one is read: the others follow from it, and a
        table may lack them.
    tree : dict
        From each of the largest areas to the areas in it, and so on; the smallest are lists. With one level, a list. Areas are all text or
        all whole numbers, and no name stands twice on a level: put "county-tract" where tracts are numbered within their county.
    default : area, default=None
        The smallest area in which a row counts whose area is missing or unknown; it and what it lies in come first. None: the first.

    See Also
    --------
    skdpsynth.AreaSynthesizer : Counts of areas that add up, and rows below them.
    Determines : The rule by which larger areas follow.

    Examples
    --------
    >>> from skdpsynth.domain import Hierarchy
    >>> places = Hierarchy(["county", "town"], {"north": ["Ash", "Elm"], "south": ["Oak"]})
    >>> places.areas
    (('north', 'south'), ('Ash', 'Elm', 'Oak'))
    >>> [parent.tolist() for parent in places.parents]
    [[0, 0], [0, 0, 1]]
    """

    levels: Any
    tree: Any
    default: Any = field(default=None)

    def __post_init__(self) -> None:
        levels = tuple(self.levels) if isinstance(self.levels, list | tuple) else ()
        if not levels or not all(map(is_name, levels)) or len({WHOLE, *map(str, levels)}) <= len(levels):
            raise ValueError(
                f"levels must be a list of columns, the largest areas first, whose names differ as text, also from {WHOLE!r}, got "
                f"{short_repr(self.levels)}."
            )
        vars(self).update(levels=levels, tree=_plain_tree(self.tree, len(levels), list_names(levels)))
        names = [area for areas in self.areas for area in areas]
        if not (all(type(name) is str for name in names) or all(type(name) is int for name in names)):
            raise ValueError("tree must have areas that are all text or all whole numbers, got others; write them as text.")
        for level, areas in zip(self.levels, self.areas, strict=True):
            if len(set(areas)) < len(areas):
                raise ValueError(
                    f"tree must name each area of {list_names([level])} once, got {short_repr(first_duplicate(areas))} twice; put the "
                    "larger area before its name, in the tree and in the table."
                )
        if self.default is not None:
            if not isinstance(self.default, str | int) or self.default not in self.areas[-1]:
                raise ValueError(f"default must be one of the smallest areas or None, got {short_repr(self.default)}; name one of them.")
            # A missing or unknown level is read as the first.
            vars(self).update(tree=_with_first(self.tree, self.default))

    def __repr__(self) -> str:
        return f"<Hierarchy: {', '.join(f'{len(areas)} of {name!r}' for name, areas in zip(self.levels, self.areas, strict=True))}>"

    @property
    def areas(self) -> tuple[tuple, ...]:
        """Names of the areas of each level; areas in one area stand together."""
        found, level = [], [self.tree]
        for _ in self.levels[1:]:
            found.append(tuple(area for part in level for area in part))
            level = [within for part in level for within in part.values()]
        return (*found, tuple(area for part in level for area in part))

    @property
    def parents(self) -> tuple[np.ndarray, ...]:
        """For each level, the number of the area of the level before that each area lies in; 0 on the first level, the whole."""
        found, level = [np.zeros(len(self.tree), dtype=np.int64)], [self.tree]
        for _ in self.levels[1:]:
            level = [within for part in level for within in part.values()]
            found.append(np.repeat(np.arange(len(level)), list(map(len, level))))
        return tuple(found)

    @property
    def smallest(self) -> np.ndarray:
        """For each level, from the whole on, the area that each of the smallest areas lies in, shape (n_levels + 1, n_areas)."""
        found = [np.arange(len(self.areas[-1]))]
        for parents in reversed(self.parents):
            found.append(parents[found[-1]])
        return np.array(found[::-1])

    def columns(self, present: Sequence[Hashable]) -> tuple[dict[Hashable, Nominal], list[Determines]]:
        """Return kinds and rules of the columns of levels among those of a table, or refuse a table without the last one."""
        *larger, last = self.levels
        check_type("present", present, (list, tuple), "a list of the columns of a table")
        if last not in present:
            raise ValueError(f"X must have the column {list_names([last])} of the smallest areas; add it, or give another hierarchy.")
        kinds, rules = {last: _areas_kind(self.areas[-1])}, []
        for place, name in enumerate(larger):
            if name in present:
                kinds[name] = _areas_kind(self.areas[place])
                above = (self.areas[place][number] for number in self.smallest[place + 1].tolist())
                rules.append(Determines(last, name, dict(zip(self.areas[-1], above, strict=True))))
        return kinds, rules


def _areas_kind(areas: tuple) -> Nominal:
    if len(areas) < 2:
        raise ValueError(f"tree must have at least two areas on each level, got {short_repr(areas[0])} alone; leave the level out.")
    return Nominal(list(areas))


def _plain_tree(tree: Any, n_levels: int, names: str) -> Any:
    is_right = isinstance(tree, Mapping) if n_levels > 1 else isinstance(tree, list | tuple)
    if not is_right or not len(tree):
        kind = "a dict from areas to the areas in them" if n_levels > 1 else "a list of the smallest areas"
        raise ValueError(f"tree must have one depth, that of {names}, and be {kind} there, got {short_repr(tree)}.")
    if n_levels == 1:
        return tuple(map(plain_value, tree))
    return {plain_value(area): _plain_tree(within, n_levels - 1, names) for area, within in tree.items()}


def _holds(tree: Any, area: Any) -> bool:
    return any(_holds(within, area) for within in tree.values()) if isinstance(tree, dict) else area in tree


def _with_first(tree: Any, area: Any) -> Any:
    """Return the tree with one of the smallest areas, and all that it lies in, before the others."""
    if not isinstance(tree, dict):
        return (area, *(other for other in tree if other != area)) if area in tree else tree
    names = sorted(tree, key=lambda name: not _holds(tree[name], area))  # the sort is stable
    return {name: _with_first(tree[name], area) for name in names}
