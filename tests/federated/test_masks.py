"""Masks of sites: they cancel in the sum, and alone they are noise."""

from collections import Counter
from itertools import combinations, product

import numpy as np
import pytest
from internals import _sites
from laws import ALARM, chi_squared

from skdpsynth import PrivateMeasureMechanism
from skdpsynth.federated import Masks, Site, Sites

NAMES = ["east", "north", "south", "west"]
HALF = np.full(1000, 2**63, dtype=np.uint64)


@pytest.mark.parametrize("n_sites", [2, 3, 20])
def test_masks_cancel_in_the_sum_of_all_sites(n_sites):
    masks = Masks.for_all([f"site {i}" for i in range(n_sites)])
    values = np.random.default_rng(0).integers(-(2**40), 2**40, (n_sites, 500))
    hidden = [site.hide(row.view(np.uint64), b"q") for site, row in zip(masks.values(), values, strict=True)]
    assert np.array_equal(np.sum(hidden, axis=0, dtype=np.uint64).view(np.int64), values.sum(axis=0))
    assert not np.array_equal(np.sum(hidden[1:], axis=0, dtype=np.uint64).view(np.int64), values[1:].sum(axis=0))


def test_what_sites_send_is_uniform_among_all_with_their_sum(monkeypatch):
    """Exactly, of numbers modulo 4 and three sites: every list of masks of sum 0 comes from equally many pads."""
    pads: dict = {}
    monkeypatch.setattr(_sites, "_pad", lambda key, pair, question, size: np.array([pads[tuple(pair)]], dtype=np.uint64))
    masks = Masks.for_all(list("abc"))
    zero, seen = np.zeros(1, dtype=np.uint64), Counter()
    for drawn in product(range(4), repeat=3):
        pads.update(zip([("a", "b"), ("a", "c"), ("b", "c")], drawn, strict=True))
        seen[tuple(int(site.hide(zero, b"q")[0]) % 4 for site in masks.values())] += 1
    assert set(seen) == {sent for sent in product(range(4), repeat=3) if sum(sent) % 4 == 0}
    assert set(seen.values()) == {4}


def test_a_mask_is_added_to_whatever_the_site_counts():
    """So that for any two tables each answer to the one is the answer to the other under another pad."""
    site = Masks.for_all(NAMES)["north"]
    values = np.random.default_rng(0).integers(0, 2**63, 1000, dtype=np.uint64)
    assert np.array_equal(site.hide(values, b"q") - values, site.hide(values + HALF, b"q") - values - HALF)


@pytest.mark.parametrize("table", ["no rows but one", "all in one cell", "everywhere"])
def test_what_one_site_sends_is_uniform_noise(table):
    """Each byte of 4097 numbers, by keys of their own."""
    rng = np.random.default_rng(0)
    X = {"no rows but one": rng.random((1, 2)), "all in one cell": np.full((50_000, 2), 0.1), "everywhere": rng.random((50_000, 2))}[table]
    masks, sent = Masks.for_all(["a", "b"]), []

    def carry(message):
        sent.append(Site(X, masks=masks["a"]).answer(message))
        return sent[-1]

    other = Site(rng.random((100, 2)), masks=masks["b"])
    PrivateMeasureMechanism("optimal", depth=12).fit(Sites({"a": carry, "b": other.answer}, head=X[:0]))
    payload = np.frombuffer(sent[-1], dtype=np.uint8, offset=32).reshape(-1, 8)
    assert len(payload) == 4097
    for place in payload.T:
        assert chi_squared(np.bincount(place, minlength=256), np.ones(256), least=10) > ALARM


def test_each_pair_has_one_key_and_no_two_pairs_or_questions_the_same_pad():
    """Even a key that serves two pairs, against the rules: else b would add to a number what it subtracts."""
    masks, zero = Masks.for_all(NAMES), np.zeros(1000, dtype=np.uint64)
    assert all(masks[a]._keys[b] == masks[b]._keys[a] for a in NAMES for b in NAMES if a != b)
    assert len({key for site in masks.values() for key in site._keys.values()}) == 6
    pads = [_sites._pad(b"k" * 32, pair, b"q", 1000) for pair in (["a", "b"], ["b", "c"], ["a", "c"])]
    pads += [masks["north"].hide(zero, question) for question in (b"1", b"2")]
    assert not any((first == second).any() for first, second in combinations(pads, 2))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: Masks("a", {"b": "k" * 32}), r"keys\['b'\] must be 32 bytes"),
        (lambda: Masks("a", {"b": b"k" * 31}), r"keys\['b'\] must be 32 bytes"),
        (lambda: Masks("a", {"a": b"k" * 32}), "names of all sites but 'a'"),
        (lambda: Masks("a", [b"k" * 32]), "names of all sites but 'a'"),
        (lambda: Masks(1, {"a": b"k" * 32}), "names of all sites but 1"),
        (lambda: Masks("a", {}), "a key for each other site"),
        (lambda: Masks("a", {"b": b"k" * 32, "c": b"k" * 32}), "no two alike"),
        (lambda: Masks.for_all(["a"]), "at least two sites"),
        (lambda: Masks.for_all(["a", "a"]), "distinct names"),
    ],
)
def test_wrong_keys_are_refused_and_not_shown(wrong, message):
    with pytest.raises(ValueError, match=message) as caught:
        wrong()
    assert "kkk" not in str(caught.value)
