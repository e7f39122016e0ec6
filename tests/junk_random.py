"""Calls with junk drawn by hypothesis: several arguments at once, and values that nobody listed."""

import numpy as np
from hypothesis import strategies as st
from junk_values import JUNK

MODES = ("plain", "assume_finite", "warnings", "seterr")
_PLAIN = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20), st.binary(max_size=5), st.complex_numbers())
_NESTED = st.recursive(
    _PLAIN, lambda some: st.lists(some, max_size=3) | st.dictionaries(st.text(max_size=3), some, max_size=3), max_leaves=6
)
_ARRAYS = st.builds(
    lambda seed, shape, kind: np.random.default_rng(seed).integers(-3, 300, shape).astype(kind),
    st.integers(0, 9),
    st.lists(st.integers(0, 3), max_size=3).map(tuple),
    st.sampled_from(["?", "u1", "i2", "u8", "f2", "f4", "c8", "M8[D]", "m8[s]", "U3", "O"]),
)
_LISTED = st.sampled_from(sorted(JUNK)).map(lambda name: JUNK[name]())


def cases(calls):
    """Draw (call, {argument: junk}, mode)."""

    def with_junk(call):
        several = st.lists(st.sampled_from(sorted(call.arguments)), min_size=1, max_size=3, unique=True)
        junk = _LISTED | _NESTED | _ARRAYS
        return st.tuples(
            st.just(call), several.flatmap(lambda names: st.fixed_dictionaries(dict.fromkeys(names, junk))), st.sampled_from(MODES)
        )

    return st.sampled_from(calls).flatmap(with_junk)
