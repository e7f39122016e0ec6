"""Links between tables: which rows hang on which, as a tree that is public."""

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import narwhals as nw
import numpy as np

from skdpsynth._validation import check_integer, check_type, is_real, list_or_none, short_repr
from skdpsynth.domain._kinds import is_name, list_names, name_repr, plain_value
from skdpsynth.frames import LabelNumbers, Table, label_list, siphash
from skdpsynth.persistence import savable

_MOST_ROWS = 4096  # of one table below one root
_KEY = "key must be the name of a column that both tables have, (child's, parent's), or a list of these"


@savable
@dataclass(frozen=True)
class Children:
    """A table whose rows hang on the rows of another: persons on households, visits on patients.

    Parameters
    ----------
    table : str
        The name of the child table.
    of : str
        The name of its parent.
    key : str, tuple or list
        The columns whose cells are equal in a row and in its parent. A name: both tables have a column of that name. A tuple of names: a
        key of several columns, where both tables have all of them, and else ``(child's, parent's)``. A list: a key of several columns,
        each a name or ``(child's, parent's)``. Equal keys are equal as units are: 7, 7.0 and "7" are one.
    most : int
        How many rows of one parent count: a public cap. The first ones by `order` do, or those that a keyed hash chooses.
    least : int, default=0
        How many rows every parent has at least: a public fact. With `head` at least 1.
    order : str, default=None
        The column of the child, numbers, times or ordinal levels, by which its rows are a history; so are sampled ones. None: the order of
        rows means nothing.
    until : str, default=None
        The column of the child in which a row ends, such as the end of a stay that begins in `order`, in the unit of this. The
        length of a row is modeled, and the gap since the end of the row before: sampled rows of one parent do not overlap.
    longest : float, default=None
        The most that a row lasts, a public fact: a number in the unit of `order` and `until`, which is days for dates, and else the
        resolution of times. Longer rows count as so long, and no sampled one lasts longer. None: what the bounds leave.
    grid : list, default=None
        The cells of `order` in a panel whose waves are public, such as ``range(1980, 1988)``: one for each of `most` rows, where `least`
        is `most`. The column is not modeled: the first sampled row of each parent has the first cell, and so on.
    head : dict, default=None
        The cell that exactly one row of each parent has, ``{"relation": "householder"}``. Where several rows have it, the head is that of
        them which would count if `most` were 1, and where none has, that of all.

    See Also
    --------
    Schema : The public facts about each table.

    Notes
    -----
    *Privacy.* A row of the root with all rows that hang on it, at any depth, is protected as one. Rows hang on what their key says, so
    a key below the first link should hold the key of the root, too: ``key=("household_id", "person_no")``. Where it is an id alone, that
    no two roots share an id is a public fact that the promise assumes.

    Rows without a parent, rows that lack a part of a key, and all but one of the rows of one key are left out.

    *Keys* stand in no schema, or as `Identifier`. Samples have fresh ones: numbers from 0 on, and what tells apart the rows of one parent
    in a key that holds the parent's, such as ``"person_no"``, from 1 on in each parent. They are text where the dtype of the column says
    text; pandas infers "str" and "object" from cells, so such columns come back as numbers. ``Identifier(labels="H")`` in the schema of
    one table puts a word before the number in all tables that have the key.

    Examples
    --------
    >>> from skdpsynth.domain import Children
    >>> Children("stay", of="patient", key="patient_id", most=12, order="admitted", until="discharged").most
    12
    """

    table: str
    _: KW_ONLY
    of: str
    key: Any
    most: int
    least: int = 0
    order: Hashable = None
    until: Hashable = None
    longest: Any = None
    grid: Any = None
    head: Any = None

    def __post_init__(self) -> None:
        for name in ("table", "of"):
            check_type(name, getattr(self, name), str, "the name of a table")
        most = check_integer("most", self.most, 1, _MOST_ROWS, "write a public cap, never learned from rows")
        least = check_integer("least", self.least, 0, most)
        order, until, longest, head = self.order, self.until, self.longest, self.head
        grid = None if isinstance(self.grid, str) else list_or_none(self.grid)
        is_history = until is None or (_is_column(until) and order not in (None, until))
        is_panel = order is not None and until is None and grid is not None and len(grid) == most
        is_head = isinstance(head, Mapping) and len(head) == 1 and all(map(_is_column, head))
        for parameter, is_right, told in (
            ("of", self.table != self.of, "another table than table, because rows cannot hang on their own table"),
            ("order", order is None or _is_column(order), "the name of a column of the child table, or None"),
            ("until", is_history, "the name of another column than order, beside it"),
            ("longest", longest is None or (until is not None and is_real(longest) and longest > 0), "a positive number, beside until"),
            ("grid", self.grid is None or is_panel, f"a list of {most} cells of order, one for each of most rows, without until"),
            ("head", head is None or is_head, 'a dict of one column: cell, {"relation": "householder"} for example'),
            (
                "least",
                grid is None or least == most,
                f"{most} beside a grid, because each row has its wave; else leave grid out",
            ),
            ("head", head is None or self.grid is None, "None beside a grid, because each row has its wave"),
            ("head", head is None or most > 1, "None where most is 1: no other rows are left, so give its columns to the parent"),
        ):
            if not is_right:
                raise ValueError(f"{parameter} must be {told}, got {short_repr(getattr(self, parameter))}.")
        vars(self).update(key=_checked_key(self.key), most=most, least=max(least, int(is_head)), head=dict(head) if is_head else None)
        vars(self).update(grid=None if grid is None else tuple(map(plain_value, grid)))


def _is_column(name: object) -> bool:
    return is_name(name) and name is not None and not isinstance(name, tuple)


def _checked_key(key: object) -> Any:
    """Return a name, two names that may be of one column, or pairs of names."""
    if _is_column(key):
        return key
    parts: list[Any] = list(key) if isinstance(key, tuple | list) else []
    parts = [tuple(part) if isinstance(part, tuple | list) else part for part in parts]
    names = [part if isinstance(part, tuple) else (part, part) for part in parts]
    if not names or not all(len(pair) == 2 and all(map(_is_column, pair)) for pair in names):
        raise ValueError(f"{_KEY}, got {short_repr(key)}.")
    if any(len({*side}) < len(names) for side in zip(*names, strict=True)):
        raise ValueError("key must name each column of a table once, but one is there twice; leave it out.")
    is_open = isinstance(key, tuple) and len(parts) == 2 and not any(isinstance(part, tuple) for part in parts)
    return tuple(parts if is_open else names)


def names_in(key: Hashable) -> list[Any]:
    """Return all columns that a key names, of both tables."""
    return [name for part in key for name in names_in(part)] if isinstance(key, tuple) else [key]


def order_links(tables: Collection[str], links: Sequence[Children]) -> tuple[str, tuple[Children, ...]]:
    """Return the root of linked tables, and the links with parents before children; or refuse what is no tree."""
    if not isinstance(links, tuple | list) or not links or not all(isinstance(link, Children) for link in links):
        raise ValueError(f"links must be a list of Children, at least one, got {short_repr(links)}.")
    for name in (name for link in links for name in (link.table, link.of)):
        if name not in tables:
            raise ValueError(f"links must name tables of schemas, got {short_repr(name)}; they are {list_names(list(tables))}.")
    below, parents = [link.table for link in links], {link.of for link in links}
    if twice := [name for name in below if below.count(name) > 1]:
        raise ValueError(
            f"links must give each table one parent, but {short_repr(twice[0])} has two; keep the one whose rows are to be "
            "protected, and put the key of the other among the columns, as levels that are public."
        )
    roots = [name for name in tables if name not in below]
    if len(roots) > 1:
        raise ValueError(f"links must leave one table that hangs on none, but {list_names(roots)} hang on none; link or leave out others.")
    paths, ordered = dict.fromkeys(roots, 1), list[Children]()
    while ready := [link for link in links if link.of in paths and link.table not in paths]:
        paths |= {link.table: paths[link.of] * link.most for link in ready}
        ordered += ready
    if circle := [name for name in below if name not in paths]:
        raise ValueError(f"links must be a tree, but {list_names(circle)} hang on each other; leave out a link.")
    name, most = max(paths.items(), key=lambda each: each[1])
    if most > _MOST_ROWS:
        raise ValueError(
            f"most must be less: a root may have {most} rows of {short_repr(name)}, the product of most along the links, and at most "
            f"{_MOST_ROWS} are taken; lower a cap."
        )
    if deep := [link.table for link in links if link.head is not None and link.table in parents]:
        raise ValueError(f"head must be None where other tables hang on the child, got one for {name_repr(deep[0])}; leave it out.")
    return roots[0], tuple(ordered)


def key_columns(link: Children, columns: Collection[Hashable], parent_columns: Collection[Hashable]) -> tuple[tuple[Any, Any], ...]:
    """Return the pairs of columns, of the child and of its parent, that are equal; or refuse a column that a table lacks."""
    parts = link.key if isinstance(link.key, tuple) else (link.key,)
    if len(parts) == 2 and not any(isinstance(part, tuple) for part in parts):
        both = all(name in columns and name in parent_columns for name in parts)
        parts = parts if both else (parts,)
    pairs = tuple(part if isinstance(part, tuple) else (part, part) for part in parts)
    for table, names, have in zip((link.table, link.of), zip(*pairs, strict=True), (columns, parent_columns), strict=True):
        if missing := [name for name in names if name not in have]:
            raise ValueError(
                f"X[{short_repr(table)}] must have the column {list_names(missing)}, by which {short_repr(link.table)} hangs on "
                f"{short_repr(link.of)}; add it, or correct key."
            )
    return pairs


def parents_of(frame: Table, *, key: Hashable | list, columns: Sequence[Hashable], order: Hashable = None) -> dict[str, Any]:
    """Split a panel that is one long table into parents and their rows.

    Parameters
    ----------
    frame : data frame in memory
        Of pandas, polars, Arrow or another library that narwhals knows: several rows of each person.
    key : column, or tuple or list of columns
        Who a row is about.
    columns : list of columns
        What is the same in all rows of a person.
    order : column, default=None
        Where rows of a person differ in `columns` after all, the first one by `order` speaks for it. None: one that a hash chooses,
        whatever the order of the table.

    Returns
    -------
    tables : dict of str to data frame
        "parent": one row for each key, with `key` and `columns`. "child": all rows, without `columns`.

    See Also
    --------
    Children : With `grid`, states the waves of a panel.

    Examples
    --------
    >>> import pandas as pd
    >>> from skdpsynth.domain import parents_of
    >>> panel = pd.DataFrame({"nr": [7, 7, 9], "school": [12, 12, 10], "year": [1980, 1981, 1980], "wage": [3.1, 3.4, 2.0]})
    >>> tables = parents_of(panel, key="nr", columns=["school"])
    >>> tables["parent"].to_dict("list"), list(tables["child"])
    ({'nr': [7, 9], 'school': [12, 10]}, ['nr', 'year', 'wage'])
    """
    try:
        long = nw.from_native(frame, eager_only=True)
        have = {*long.columns}
    except Exception:  # of narwhals, and of whatever else it may be
        told = "frame must be a data frame in memory, such as one of pandas or polars, whose columns have different names"
        raise TypeError(f"{told}, got {short_repr(frame)}.") from None
    keys, constant = ([each] if _is_column(each) else list_or_none(each) for each in (key, columns))
    if not keys or not constant or not all(map(_is_column, [*keys, *constant])) or {*keys} & {*constant}:
        raise ValueError(
            f"key and columns must name different columns of frame, at least one each, got {short_repr(key)} and {short_repr(columns)}."
        )
    if lacking := [name for name in [*keys, *constant] if name not in have]:
        raise ValueError(f"key and columns must be columns of frame, but it lacks {list_names(lacking)}; correct them.")
    if order is not None and (not _is_column(order) or order not in have):
        raise ValueError(f"order must be a column of frame, got {short_repr(order)}; correct it, or leave it out.")
    known = LabelNumbers()
    words = [word for name in [*keys, *constant] for word in known.hashes(known.numbers_of(label_list(long[name])))]
    who = words[: 2 * len(keys)]
    times = [] if order is None else [long[order].rank("dense").to_numpy()]
    ranks = np.lexsort((*siphash(bytes(16), words), *times, *who))
    is_first = np.any([np.diff(word[ranks], prepend=~word[ranks[:1]]) != 0 for word in who], axis=0)
    first = np.sort(ranks[is_first])
    return {"parent": long[first.tolist()].select(*keys, *constant).to_native(), "child": long.drop(*constant).to_native()}
