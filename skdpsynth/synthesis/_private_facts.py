"""Schemas whose bounds and levels are bought."""

from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from skdpsynth.domain import Schema
from skdpsynth.fitting import (
    BOUNDS_SHARE,
    Budget,
    Facts,
    buy_bounds,
    buy_levels,
    reserve_budget,
    warn_of_few_levels,
    warn_of_unseen,
    without_levels_share,
)
from skdpsynth.frames import Rows
from skdpsynth.statistics import total
from skdpsynth.tables import ApplyPrivateFacts, with_bounds, with_levels


@dataclass(frozen=True, eq=False)
class BoughtFacts:
    """The schema, rows and facts after a purchase."""

    schema: Schema
    rows: Rows
    facts: Facts  # of the rest of the budget
    closing: ApplyPrivateFacts  # the map that the rows went through, for other rows that were read by the first schema


def buy_missing_facts(schema: Schema, dtypes: tuple[str, ...], rows: Rows, facts: Facts, rho: str | None, budget: Budget) -> BoughtFacts:
    """Buy the levels, then the bounds that a schema lacks, for rows read by it; `rho` is that of the plan."""
    names, coded, dtype_of = list(schema.coded), schema.coded, dict(zip(schema, dtypes, strict=True))
    bought: dict[Hashable, Any] = {}
    if facts.unlisted:
        columns = [names[place] for place in facts.unlisted]
        found = buy_levels(partial(total, rows), facts.unlisted, facts, budget)
        warn_of_few_levels(columns, found, budget)
        bought |= {name: with_levels(coded[name], levels, dtype_of[name]) for name, levels in zip(columns, found, strict=True)}
        facts = without_levels_share(facts)
    if facts.unknown is not None:
        columns = [names[place] for place in facts.unknown.columns]
        share, facts = reserve_budget(facts, BOUNDS_SHARE, rho)
        box = buy_bounds(partial(total, rows), facts.unknown, share, budget, facts.n_samples)
        warn_of_unseen([name for name, is_seen in zip(columns, box.is_seen, strict=True) if not is_seen], budget)
        bought |= {name: with_bounds(coded[name], low, high) for name, low, high in zip(columns, box.low, box.high, strict=True)}
    closed = schema.with_kinds({**schema, **bought})
    closing = ApplyPrivateFacts({place: bought[name] for place, name in enumerate(names) if name in bought})
    return BoughtFacts(closed, rows.map(closing).kept(), replace(facts, schema=closed.coded, unknown=None, unlisted=()), closing)
