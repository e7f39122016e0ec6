"""What notebooks show links to the pages that the documentation has."""

import importlib

from extensions import DOCS, extension
from internals import API_URL, public_name
from sklearn.base import BaseEstimator

from skdpsynth import PrivateMeasureMechanism


def listed():
    return list(extension("api_pages").listed(DOCS / "api.md"))


def objects():
    return [(name, getattr(importlib.import_module(name.rpartition(".")[0]), name.rpartition(".")[2])) for name in listed()]


# Made in a room without a face, and shown by another.
ELSEWHERE = {"skdpsynth.statistics.Sensitivity", "skdpsynth.statistics.Query", "skdpsynth.federated.Question"}


def test_classes_and_estimators_have_the_page_that_the_reference_makes_and_those_of_users_none():
    for name, thing in objects():
        if isinstance(thing, type) and name not in ELSEWHERE:
            assert public_name(thing) == name
        if isinstance(thing, type) and issubclass(thing, BaseEstimator) and not getattr(thing, "__abstractmethods__", None):
            assert thing.__new__(thing)._get_doc_link() == f"{API_URL}{name}.html"
    assert f'href="{API_URL}skdpsynth.PrivateMeasureMechanism.html"' in PrivateMeasureMechanism()._repr_html_()
    assert type("Mine", (PrivateMeasureMechanism,), {"__module__": __name__})()._get_doc_link() == ""
