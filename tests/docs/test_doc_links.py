"""What notebooks show links to the pages that the documentation has."""

import importlib

import pytest
from extensions import DOCS, extension
from internals import OUTERMOST, PAGES, page_of, public_name
from sklearn.base import BaseEstimator

import skdpsynth
from skdpsynth import PrivateMeasureMechanism


def listed():
    return list(extension("api_pages").listed(DOCS / "api.md"))


def objects():
    return [(name, getattr(importlib.import_module(name.rpartition(".")[0]), name.rpartition(".")[2])) for name in listed()]


# Made in a room without a face, and shown by another.
ELSEWHERE = {"skdpsynth.statistics.Change", "skdpsynth.statistics.Query", "skdpsynth.federated.Question"}


@pytest.mark.parametrize("name", [name for name, thing in objects() if isinstance(thing, type) and name not in ELSEWHERE])
def test_a_class_has_the_page_that_the_reference_makes(name):
    assert public_name(dict(objects())[name]) == name


def test_classes_that_the_package_shows_itself_are_known():
    shown = [getattr(skdpsynth, name) for name in skdpsynth.__all__]
    assert {thing.__name__ for thing in shown if isinstance(thing, type)} == OUTERMOST


@pytest.mark.parametrize("name", [name for name, thing in objects() if isinstance(thing, type) and issubclass(thing, BaseEstimator)])
def test_an_estimator_links_to_its_page(name):
    cls = dict(objects())[name]
    if not getattr(cls, "__abstractmethods__", None):
        assert page_of(cls) == f"{PAGES}{name}.html"
        assert cls.__new__(cls)._get_doc_link() == page_of(cls)


def test_the_picture_in_a_notebook_holds_the_link():
    assert f'href="{page_of(PrivateMeasureMechanism)}"' in PrivateMeasureMechanism()._repr_html_()


def test_a_class_of_a_user_links_nowhere():
    class Mine(PrivateMeasureMechanism):
        pass

    assert Mine()._get_doc_link() == ""
