"""Laws of linked tables."""

from collections import Counter
from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np

from skdpsynth.privacy import PrivacyAccountant
from skdpsynth.testing._harness import (
    Estimator,
    as_rows,
    catch_refusal,
    clone_with,
    clone_with_seed,
    current_roots,
    entries_of,
    needs,
    released_state,
    require,
    require_equal,
    rows,
)
from skdpsynth.testing._roots import N_EXTREMES


@needs("links")
def check_sampled_rows_hang_on_sampled_parents(estimator: Estimator) -> None:
    """A sample has as many roots as asked for; each other row hangs on one row, with no more and no fewer siblings than links say."""
    roots = current_roots()
    assert roots is not None
    linked = roots.linked
    drawn = {name: as_rows(table) for name, table in clone_with(estimator).fit(rows()).sample(50).items()}
    require(len(drawn[linked.root]) == 50, f"a sample of 50 roots has {len(drawn[linked.root])}")

    def keys_of(name: str, columns: Iterable[Any]) -> list[tuple[Any, ...]]:
        places = [list(linked.formats[name].columns).index(column) for column in columns]
        return list(map(tuple, drawn[name][:, places].tolist()))

    for link in linked.links:
        mine, theirs = zip(*linked.keys[link.table], strict=True)
        children, parents = Counter(keys_of(link.table, mine)), keys_of(link.of, theirs)
        require(len({*parents}) == len(parents), f"two rows of {link.of!r} have one key")
        require(children.keys() <= {*parents}, f"a row of {link.table!r} has no parent")
        numbers = {children[key] for key in parents}
        require(link.least <= min(numbers) and max(numbers) <= link.most, f"a row has {min(numbers)} or {max(numbers)} of {link.table!r}")


@needs("links")
def check_the_order_of_tables_and_of_their_rows_means_nothing(estimator: Estimator) -> None:
    """The order of tables, in the dict and in the schemas, that of links, and that of the rows of each table mean nothing."""
    first = released_state(clone_with_seed(estimator).fit(rows()))
    table = {name: each[::-1] for name, each in reversed(rows().items())}
    settings = {"schemas": dict(reversed(estimator.schemas.items())), "links": list(reversed(estimator.links))}
    for parameters in ({}, settings):
        second = released_state(clone_with_seed(estimator, **parameters).fit(table))
        require_equal(dict(sorted(first.items())), dict(sorted(second.items())), "between orders of the tables")


@needs("links")
def check_tables_that_lack_something_are_refused_before_the_charge(estimator: Estimator) -> None:
    """A dict that lacks a table or has another one, and a table that lacks its key, are refused in one sentence, and nothing is spent."""
    table = rows()
    child = estimator.links[0].table
    for bad in (
        {name: each for name, each in table.items() if name != child},
        table | {"another": table[child]},
        table | {child: np.ones((5, 1))},
        list(table.values()),
    ):
        shared = PrivacyAccountant(1, estimator.delta, neighboring=estimator.neighboring)
        catch_refusal(partial(clone_with(estimator, epsilon=1, accountant=shared).fit, bad), "tables that lack something")
        require(shared.spent == 0, f"it was refused, but charged {shared.spent}")


@needs("links")
def check_few_roots_fit(estimator: Estimator) -> None:
    """One root fits, also one without rows below it, and a sample has the tables that were given; none fits where roots come and go."""
    clone_with(estimator, neighboring="add_or_remove_one").fit(rows(0))
    for seed in range(N_EXTREMES):
        table = rows(1, seed=seed)
        drawn = clone_with(estimator, neighboring="replace_one").fit(table).sample()
        require(list(drawn) == list(table), f"the tables are {list(drawn)}")


@needs("links")
def check_the_ledger_says_that_the_root_is_protected(estimator: Estimator) -> None:
    """Each entry of a fit says that a root with all that hangs on it is protected, and a unit is refused."""
    said = {str(entry.unit) for entry in entries_of(clone_with(estimator).fit(rows()).accountant_)}
    names = [link.table for link in estimator.links]
    require(len(said) == 1 and all(name in min(said) for name in names), f"the ledger says {said}")
    catch_refusal(partial(clone_with(estimator).fit, rows(), unit="who"), "a unit beside the root")
