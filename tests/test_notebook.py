"""How objects look in notebooks and in the console: short, escaped, with a link, and without arrays."""

import numpy as np
import pytest

from skdpsynth import PrivacyAccountant
from skdpsynth.domain import Box, Nominal, Schema
from skdpsynth.measures import BinaryPartition, DiscreteMeasure
from skdpsynth.models import Link

HOSTILE = "<script>x</script>"


def account():
    budget = PrivacyAccountant(100)
    for number in range(30):
        budget.spend(1, name=f"{HOSTILE} {number}")
    return budget


def measure():
    partition = BinaryPartition(Box([0], [1]), depth=8)
    return DiscreteMeasure.from_mass(partition, np.arange(256), np.full(256, 8), np.arange(256.0))


THINGS = {"account": account, "schema": lambda: Schema({HOSTILE: (0, 1), "b": [HOSTILE, "c"]}), "measure": measure}


@pytest.mark.parametrize("make", THINGS.values(), ids=THINGS)
def test_a_notebook_card_is_short_and_valid_links_to_the_documentation_and_runs_no_code_of_names(make):
    html5lib, html = pytest.importorskip("html5lib"), make()._repr_html_()
    assert "<script" not in html
    assert "<a href='https://skdpsynth.readthedocs.io/en/stable/" in html
    assert len(html) < 10_000
    html5lib.HTMLParser(strict=True).parse(f"<!DOCTYPE html><title>x</title>{html}")


def test_an_account_shows_its_newest_charges():
    html = account()._repr_html_()
    assert f"{29}</td>" in html
    assert "The last 20 of 30 charges" in html


@pytest.mark.parametrize(
    ("thing", "text"),
    [
        (Box(np.zeros(50), np.ones(50)), "Box(n_features=50, bits=16)"),
        (Box([0], [1]), "Box(low=[0.0], high=[1.0], bits=16)"),
        (Link(np.full(4, 0.25), np.array([0, 2, 4])), "Link(n_cells=4, n_bins=2)"),
        (Nominal(range(30_000)), "Nominal(levels=(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ... 30000 in all), nullable=False)"),
        (Nominal(["a", "b"]), "Nominal(levels=('a', 'b'), nullable=False)"),
        (Nominal("private"), "Nominal(levels='private', nullable=False)"),
    ],
)
def test_a_repr_is_short(thing, text):
    assert repr(thing) == text


def test_a_schema_of_many_columns_is_cut():
    text = repr(Schema(dict.fromkeys(range(1000), (0.0, 1.0))))
    assert text.endswith("... 1000 columns})")
    assert len(text) < 5000
