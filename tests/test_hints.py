"""Names of other libraries are missed with a hint, in errors of Python's own types; what exists is as it was."""

import copy
import inspect
import pickle
import timeit
from fractions import Fraction

import numpy as np
import pytest
from estimators import all_estimators
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from skdpsynth import LatentFactorSynthesizer, PrivacyAccountant, PrivateMeasureMechanism, PrivatePCA, _hints, load
from skdpsynth.domain import Schema

EACH = pytest.mark.parametrize("cls", all_estimators())
ROWS = np.random.default_rng(0).random((50, 2))


# Attributes


@EACH
def test_names_of_other_libraries_are_missed_with_a_hint(cls):
    for name, way in _hints.ESTIMATORS.items():
        with pytest.raises(AttributeError) as caught:
            getattr(cls(), name)
        assert str(caught.value) == f"'{cls.__name__}' object has no attribute '{name}'; {way}."
        assert (caught.value.name, type(caught.value.obj)) == (name, cls)


@pytest.mark.parametrize("name", _hints.ACCOUNTANTS)
def test_accountants_miss_them_with_a_hint(name):
    with pytest.raises(AttributeError, match=rf"^'PrivacyAccountant' object has no attribute '{name}'; "):
        getattr(PrivacyAccountant(1.0), name)


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("fit_sample", r"fit\(X\) first, then sample"),
        ("generate", r"sample\(n_samples\)"),
        ("sample_from_conditions", "keep those that you want"),
        ("evaluate_quality", r"evaluate\(X\)"),
        ("spent_budget", "accountant_"),
        ("load", r"skdpsynth\.load\(path\)"),
    ],
)
def test_hint_names_the_way(name, way):
    with pytest.raises(AttributeError, match=way):
        getattr(PrivateMeasureMechanism(), name)


@pytest.mark.parametrize(("name", "way"), [("total", "`spent`"), ("check", "`remaining`"), ("set_default", "accountant=")])
def test_hint_of_an_accountant_names_the_way(name, way):
    with pytest.raises(AttributeError, match=way):
        getattr(PrivacyAccountant(1.0), name)


@pytest.mark.parametrize("name", ["load", "create"])
@EACH
def test_what_others_call_on_a_class_is_missed_there_too(cls, name):
    with pytest.raises(AttributeError, match=rf"^type object '{cls.__name__}' has no attribute '{name}'; "):
        getattr(cls, name)
    assert not hasattr(cls, name)


@pytest.mark.parametrize("name", ["load", "load_default", "pop_default"])
def test_what_others_call_on_the_class_of_an_accountant_is_missed_there(name):
    with pytest.raises(AttributeError, match=r"^type object 'PrivacyAccountant' has no attribute "):
        getattr(PrivacyAccountant, name)


@EACH
def test_hints_are_no_members_for_documentation(cls):
    for owner in (cls, PrivacyAccountant):
        assert not {name for name, _ in inspect.getmembers(owner, inspect.isroutine)} & set(_hints.CLASSES)
        assert not set(vars(owner)) & set(_hints.CLASSES)


@EACH
def test_no_hint_hides_what_a_class_has(cls):
    has = set(dir(cls)) - set(_hints.CLASSES)
    assert not has & set(_hints.ESTIMATORS)
    assert not (set(dir(PrivacyAccountant)) - set(_hints.CLASSES)) & set(_hints.ACCOUNTANTS)


@EACH
def test_other_names_are_missed_in_pythons_words(cls):
    with pytest.raises(AttributeError, match=rf"^'{cls.__name__}' object has no attribute 'nonsense'$"):
        cls().nonsense  # noqa: B018


@EACH
def test_hints_are_not_there(cls):
    assert not any(hasattr(cls(), name) for name in _hints.ESTIMATORS)


def test_property_that_fails_says_why_in_its_own_words():
    class Broken(PrivateMeasureMechanism):
        @property
        def part(self):
            raise AttributeError("not there yet")

    with pytest.raises(AttributeError, match=r"^not there yet$"):
        Broken().part  # noqa: B018


def test_attributes_of_a_fit_are_missed_before_it_in_pythons_words():
    with pytest.raises(AttributeError, match=r"no attribute 'measure_'$"):
        PrivateMeasureMechanism().measure_  # noqa: B018
    with pytest.raises(NotFittedError):
        PrivateMeasureMechanism().sample()


@EACH
def test_copies_pickles_and_clones_are_as_before(cls):
    model = cls(epsilon=0.7)
    copies = [copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model)), clone(model)]
    assert [each.get_params() for each in copies] == [model.get_params()] * 4


def test_object_without_attributes_fails_without_end():
    """As pickle and copy make it: a hint that read an attribute would look for it forever."""
    with pytest.raises(AttributeError, match="nonsense"):
        object.__new__(PrivateMeasureMechanism).nonsense  # noqa: B018
    with pytest.raises(AttributeError, match="_entries"):
        object.__new__(PrivacyAccountant)._entries  # noqa: B018


# Arguments


@EACH
def test_arguments_of_other_libraries_are_refused_with_a_hint(cls):
    for name, way in _hints.KEYWORDS.items():
        with pytest.raises(TypeError) as caught:
            cls(**{name: 1})
        assert str(caught.value) == f"{cls.__name__}() got an unexpected keyword argument '{name}'; {way}."


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m.sample(num_rows=3), r"^PrivateMeasureMechanism\.sample\(\) got an unexpected .* 'num_rows'; .* `n_samples`\.$"),
        (
            lambda m: m.sample(3, conditions={}),
            r"'conditions'; rows on conditions are drawn by LatentFactorSynthesizer.*, draw more rows and keep",
        ),
        (lambda m: m.sample_batches(num_rows=3), r"^PrivateMeasureMechanism\.sample_batches\(\) got .* `n_samples`\.$"),
        (lambda m: m.fit(data=ROWS), r"^PrivateMeasureMechanism\.fit\(\) got .* 'data'; the table is `X`"),
        (lambda m: m.fit(ROWS, sample_weight=1), r"'sample_weight'; rows have no weights"),
        (lambda m: m.fit(ROWS, preprocessor_eps=1), r"'preprocessor_eps'; `epsilon` is the whole budget"),
        (lambda m: m.fit(ROWS, categorical_columns=[]), r"'categorical_columns'; what is public .* `schema`"),
        (lambda m: PrivatePCA(2, data_norm=1), r"^PrivatePCA\(\) got .* 'data_norm'; .* `max_norm`"),
        (lambda m: PrivatePCA(2, centered=True), r"'centered'; .* `center`"),
        (lambda m: PrivatePCA(verbose=1), r"'verbose'; fits say nothing"),
        (lambda m: LatentFactorSynthesizer(metadata={}), r"'metadata'; .*Schema\.from_sdv"),
        (lambda m: PrivacyAccountant(1.0, spent_budget=[]), r"^PrivacyAccountant\(\) got .* 'spent_budget'; "),
    ],
)
def test_hint_of_an_argument_names_the_way(call, message):
    with pytest.raises(TypeError, match=message):
        call(PrivateMeasureMechanism())


@EACH
def test_no_hint_hides_an_argument_that_a_class_takes(cls):
    assert not set(inspect.signature(cls).parameters) & set(_hints.KEYWORDS)


@EACH
def test_slip_of_the_pen_is_told_the_nearest_name(cls):
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'epsilonn'; did you mean 'epsilon'\?$"):
        cls(epsilonn=1.0)


def test_argument_like_no_other_is_told_all_names():
    with pytest.raises(TypeError, match=r"'zzz'; it takes n_samples, random_state, out\.$"):
        PrivateMeasureMechanism().sample(zzz=1)


@EACH
def test_epsilon_by_position_is_told_to_be_named(cls):
    with pytest.raises(
        TypeError, match=rf"^{cls.__name__}\(\) takes .*positional arguments were given; name the others, such as \w+=\.\.\.\.$"
    ):
        cls(None, 1.0, 2.0)


def test_missing_arguments_are_refused_in_pythons_words():
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'X'"):
        PrivateMeasureMechanism().fit()


def test_errors_within_a_method_are_its_own():
    with pytest.raises(TypeError, match=r"^X must"):
        PrivateMeasureMechanism().fit(np.array([["a", "b"]], dtype=object))


@EACH
def test_signatures_are_those_of_the_methods(cls):
    for name in ("__init__", "fit", "sample", "partial_fit"):
        if hasattr(cls, name):
            method = getattr(cls, name)
            assert next(iter(inspect.signature(method).parameters)) == "self"
            assert not any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in inspect.signature(method).parameters.values())
            assert method.__doc__ or name == "__init__"
    assert cls().get_params().keys() == inspect.signature(cls).parameters.keys()


# Accountants


def test_remaining_that_is_called_says_that_it_is_a_property():
    budget = PrivacyAccountant(1.0)
    budget.spend(0.25, name="counts")
    with pytest.raises(TypeError, match=r"^'Fraction' object is not callable; `remaining` is a property, here 0\.75, and split"):
        budget.remaining(3)


def test_remaining_is_a_fraction_like_any_other():
    left = PrivacyAccountant(0.3).remaining
    assert left == Fraction(3, 10)
    assert repr(left) == "Fraction(3, 10)"
    assert type(pickle.loads(pickle.dumps(left))) is type(left + 0) is Fraction
    assert hash(left) == hash(Fraction(3, 10))


def test_accountant_in_a_with_statement_names_the_parameter():
    with (
        pytest.raises(TypeError, match=r"does not support the context manager protocol; .*accountant=PrivacyAccountant"),
        PrivacyAccountant(1.0),
    ):
        pass


# Schemas


@pytest.mark.parametrize(
    "metadata",
    [
        {"columns": {"age": {"sdtype": "numerical"}}, "METADATA_SPEC_VERSION": "SINGLE_TABLE_V1"},
        {"tables": {"people": {"columns": {"age": {"sdtype": "numerical"}}}}, "relationships": []},
    ],
)
def test_metadata_of_sdv_given_as_schema_names_what_reads_them(metadata):
    for take in (Schema, lambda given: LatentFactorSynthesizer(given).fit(ROWS)):
        with pytest.raises(ValueError, match=r"metadata of SDV, read it by Schema\.from_sdv\.$"):
            take(metadata)


# What it costs


def test_what_exists_costs_nothing_and_a_call_less_than_ten_microseconds():
    """Python finds attributes that exist before it asks for a hint; the wrapper of a call takes about a third of a microsecond."""

    class Plain:
        def call(self, X=None):
            pass

    class Checked:
        @_hints.hinted
        def call(self, X=None):
            pass

    plain, checked = (
        min(timeit.repeat(lambda thing=thing: thing.call(X=1), number=2000, repeat=5)) / 2000 for thing in (Plain(), Checked())
    )
    assert checked - plain < 1e-5


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_files_of_before_are_read(tmp_path):
    model = PrivateMeasureMechanism().fit(ROWS)
    model.save(tmp_path / "model.zip")
    assert load(tmp_path / "model.zip").sample(4, random_state=0).tolist() == model.sample(4, random_state=0).tolist()
