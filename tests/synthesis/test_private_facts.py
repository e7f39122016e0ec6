"""Tables whose bounds and levels nobody knows, and columns of levels by the thousands."""

from fractions import Fraction
from functools import reduce
from operator import add

import numpy as np
import pandas as pd
import pytest
from internals import MAX_CODES
from laws import refuses
from scipy.stats import norm
from sklearn.base import clone

from skdpsynth import LatentFactorSynthesizer, PrivateMeasureMechanism
from skdpsynth.domain import Continuous, Identifier, Nominal, Ordinal
from skdpsynth.exceptions import SmallSampleWarning
from skdpsynth.federated import RemoteRows
from skdpsynth.persistence import from_bytes, to_bytes
from skdpsynth.privacy import PrivacyAccountant
from skdpsynth_evidence import check_evidence

N = 5000
RNG = np.random.default_rng(0)
JOBS = RNG.choice(["nurse", "cook", "smith", "hermit"], N, p=[0.5, 0.3, 0.199, 0.001])
PAID = {
    "age": RNG.integers(18, 90, N),
    "income": np.exp(RNG.normal(10, 0.5, N)),
    "job": JOBS,
    "code": RNG.choice([3, 7, 11], N).astype("int8"),
}
FRAME = pd.DataFrame({**PAID, "opt": np.where(RNG.random(N) < 0.2, np.nan, RNG.normal(size=N)), "id": np.arange(N)})
SCHEMA = {
    "age": Continuous(bounds="private", integer=True),
    "income": Continuous(bounds="private"),
    "job": Nominal("private"),
    "code": Nominal("private", nullable=True),
    "opt": Continuous(bounds="private", nullable=True),
    "id": Identifier(),
}


def fitted(frame=FRAME, schema=SCHEMA, **parameters):
    return LatentFactorSynthesizer(schema, **{"epsilon": 4.0, "delta": 1e-6, "random_state": 0, **parameters}).fit(frame)


def delta_beside(ledger, epsilon):
    """The exact delta of a bit, which is what pure losses tell at most, of a normal number, and of what levels may show by themselves."""
    pure, shown = (sum(float(getattr(entry.loss, name)) for entry in ledger if entry.loss.rho is None) for name in ("epsilon", "delta"))
    mu, share = np.sqrt(2 * sum(float(entry.loss.rho) for entry in ledger if entry.loss.rho is not None)), 1 / (1 + np.exp(-pure))
    tails = [norm.sf(x / mu - mu / 2) - np.exp(x + norm.logsf(x / mu + mu / 2)) for x in (epsilon - pure, epsilon + pure)]
    return shown + share * tails[0] + (1 - share) * tails[1]


@pytest.mark.parametrize("neighboring", ["replace_one", "add_or_remove_one"])
@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_a_table_gets_all_of_a_budget_that_private_levels_leave(neighboring, epsilon):
    many = {f"answer {place}": Ordinal(range(9)) for place in range(15)}
    frame = FRAME[["job"]].assign(**{name: RNG.integers(0, 9, N) for name in many})
    model = fitted(frame, {"job": Nominal("private"), **many}, neighboring=neighboring, epsilon=epsilon)
    assert (model.accountant_.spent, model.accountant_.spent_delta) == (Fraction(str(epsilon)), Fraction(1, 10**6))
    assert {entry.loss.gaussian for entry in model.accountant_.ledger if entry.name != "levels"} == {True}
    assert 1e-6 * (1 - 1e-6) < delta_beside(model.accountant_.ledger, epsilon) <= 1e-6
    assert delta_beside(model.accountant_.ledger, 0.995 * epsilon) > 1e-6
    assert check_evidence(model.accountant_.record().evidence()).loose == []


@pytest.mark.parametrize("neighboring", ["replace_one", "add_or_remove_one"])
def test_bounds_and_levels_are_bought_for_all_of_the_budget_and_the_table_comes_back_in_its_dtypes(neighboring):
    model = fitted(neighboring=neighboring)
    schema, sample, ledger = model.schema_, model.sample(1000), model.accountant_.ledger
    assert (model.accountant_.spent, model.accountant_.spent_delta) == (4, Fraction(1, 10**6))
    assert [entry.name for entry in ledger[:3]] == ["levels", "bounds: magnitudes", "bounds: even cells"]
    assert (ledger[0].loss.epsilon, ledger[0].loss.delta) == (Fraction(4, 10), Fraction(1, 10**7))
    assert schema["job"].levels == ("other", "cook", "nurse", "smith")
    assert schema["code"].levels == (3, 7, 11)
    assert schema["age"].integer
    assert schema["age"].low <= 20 < 80 <= schema["age"].high < 300
    assert schema["opt"].nullable
    assert sample.dtypes.drop("code").to_dict() == FRAME.drop(columns=["id", "code"]).dtypes.to_dict()
    assert sample["opt"].isna().mean() == pytest.approx(0.2, abs=0.08)
    assert set(sample["job"]) <= {"other", "cook", "nurse", "smith"}
    assert np.isfinite(model.score(FRAME.head(200)))


def test_a_rare_level_is_not_shown_and_its_rows_have_their_place():
    model = fitted()
    assert "hermit" not in model.schema_["job"].levels
    assert "hermit" not in str(vars(model))
    assert np.isfinite(model.score(FRAME[FRAME["job"] == "hermit"]))


def test_without_noise_all_levels_are_shown_and_bounds_hold_all_rows_and_pure_budgets_buy_bounds():
    model = fitted(epsilon=float("inf"), delta=0.0)
    assert model.schema_["job"].levels == ("other", "cook", "hermit", "nurse", "smith")
    for name in ("age", "income"):
        assert model.schema_[name].low <= FRAME[name].min()
        assert FRAME[name].max() <= model.schema_[name].high
    model = fitted(FRAME[["age", "income"]], None, bounds="private", delta=0.0)
    assert (model.accountant_.spent, model.accountant_.spent_delta, model.schema_["age"].integer) == (4, 0, True)


def test_nothing_public_depends_on_the_number_of_levels_that_are_hidden(monkeypatch):
    """The same answers of the door, for a table with a level more: the ledger, the schema and the warnings are the same."""
    monkeypatch.setattr(PrivacyAccountant, "release_discovered", lambda *_, **__: [["cook", "nurse"], [3, 7]])

    def told(frame):
        model = LatentFactorSynthesizer(SCHEMA, epsilon=float("inf"), delta=1e-6).fit(frame)
        return model.schema_, [(entry.name, entry.n_values, entry.sensitivity) for entry in model.accountant_.ledger]

    assert told(FRAME) == told(FRAME.assign(job=np.where(np.arange(N) == 7, "another", FRAME["job"])))


def test_few_rows_show_nothing_and_are_told_so():
    with pytest.warns(SmallSampleWarning) as caught:
        model = fitted(FRAME.head(50), epsilon=0.1)
    messages = " ".join(str(warning.message) for warning in caught)
    assert "Fewer than two levels of 'job', 'code'" in messages
    assert "show no rows of 'age', 'income', 'opt'" in messages
    assert model.schema_["job"].levels == ("other", "none")
    assert len(model.sample(10)) == 10


REFUSED = [
    (SCHEMA, {"delta": 0.0}, "delta must be greater than 0 to buy the levels of 'job', 'code'"),
    (SCHEMA, {"strategy": "scores"}, "must be public for strategy='scores'"),
    (SCHEMA, {"stratify": "job"}, "stratify must have public levels"),
    ({**SCHEMA, "job": Ordinal("private")}, {}, "'job' has private levels"),
    ({**SCHEMA, "age": Continuous(bounds="open")}, {}, "'age' has open bounds"),
    (SCHEMA, {"n_factors": 0}, "n_factors must be"),
    (SCHEMA, {"bounds": "private"}, "bounds must be a pair"),
]


@pytest.mark.parametrize(("schema", "parameters", "match"), REFUSED)
def test_what_cannot_be_bought_is_refused_before_any_charge(schema, parameters, match):
    accountant = PrivacyAccountant(4, 1e-6)
    refuses(ValueError, match, fitted, schema=schema, accountant=accountant, **parameters)
    assert not accountant.ledger


@pytest.mark.parametrize("neighboring", ["replace_one", "add_or_remove_one"])
def test_a_table_in_chunks_buys_the_same_facts_as_one_in_memory(neighboring):
    """Under one seed."""
    chunks = [FRAME.iloc[start : start + 777] for start in range(0, N, 777)]
    whole, parts = (fitted(X, neighboring=neighboring) for X in (FRAME, chunks))
    assert whole.schema_ == parts.schema_
    pd.testing.assert_frame_equal(whole.sample(50, random_state=1), parts.sample(50, random_state=1))


@pytest.mark.parametrize("neighboring", ["replace_one", "add_or_remove_one"])
def test_rows_that_lie_elsewhere_buy_the_same_bounds(neighboring):
    """Questions and answers travel as bytes."""
    parts = np.array_split(FRAME[["age", "income"]].to_numpy(), 7)

    def ask(question):
        again = from_bytes(to_bytes(question))
        return reduce(add, (again.of(part).flat for part in parts))

    rows, X = RemoteRows(ask, head=parts[0][:0], n_samples=N), np.concatenate(parts)
    for model in (PrivateMeasureMechanism(), LatentFactorSynthesizer()):
        model.set_params(bounds="private", random_state=0, neighboring=neighboring)
        samples = [clone(model).fit(each).sample(20, random_state=1) for each in (rows, X)]
        np.testing.assert_array_equal(*samples)


def test_levels_of_rows_that_lie_elsewhere_cannot_be_bought():
    rows = RemoteRows(lambda question: pytest.fail("asked"), head=FRAME[["job"]].head(0), n_samples=N)
    refuses(ValueError, "schema must list all levels where rows lie elsewhere", fitted, rows, {"job": Nominal("private")})


LEVELS = [f"{number:04d}" for number in range(3000)]
CODES = RNG.choice(3000, 20_000, p=(shares := 1 / np.arange(1, 3001) ** 0.7) / shares.sum())
TOWNS = pd.DataFrame({"post": np.array(LEVELS)[CODES], "x": RNG.normal(CODES // 1000, 0.3)})


@pytest.mark.parametrize(("groups", "nullable"), [(None, True), (1, False), (2, True)])
def test_levels_by_the_thousands_are_merged_for_pairs_and_drawn_one_by_one(groups, nullable):
    is_there = (np.arange(len(TOWNS)) % 2 == 0) | (groups is not None)  # missing cells are missing again
    model = fitted(
        TOWNS.assign(post=TOWNS["post"].where(is_there)), {"post": Nominal(LEVELS, groups=groups, nullable=nullable), "x": (-2.0, 4.0)}
    )
    assert model.marginals_["post",].size <= MAX_CODES + nullable
    assert model.cells_["post"].size == len(LEVELS) + nullable
    assert model.bins_["post"].shape == (len(LEVELS),)
    assert "counts of levels" in [entry.name for entry in model.accountant_.ledger]
    sample = model.sample(20_000)
    assert sample["post"].isna().mean() == pytest.approx(1 - np.mean(is_there), abs=0.05)
    assert set(sample["post"].dropna()) <= set(LEVELS)
    assert sample["post"].nunique() > 500
    if groups:
        means = sample.groupby(sample["post"].str[0])["x"].mean()
        assert means.to_numpy() == pytest.approx([0, 1, 2], abs=0.3)


def test_levels_that_are_bought_may_be_many_and_have_groups():
    frame = pd.DataFrame({"post": np.array(LEVELS)[CODES % 100], "x": TOWNS["x"]})
    model = fitted(frame, {"post": Nominal("private", groups=3), "x": (-2.0, 4.0)}, epsilon=20.0)
    assert len(model.schema_["post"].levels) > MAX_CODES
    assert model.schema_["post"].groups == 3
    assert model.marginals_["post",].size <= MAX_CODES
