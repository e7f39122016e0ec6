"""Columns of words in CSV files are read as words, whatever they look like: a schema says so."""

import numpy as np
import pandas as pd
import pytest

from skdpsynth import LatentFactorSynthesizer
from skdpsynth.domain import MixedTypeEncoder, Schema
from skdpsynth.federated import Site, Sites
from skdpsynth.metrics import marginal_total_variation

pytest.importorskip("pyarrow")
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
SCHEMA = Schema({"postcode": ["01067", "20095", "80331"], "flag": ["true", "false"], "floor": [0, 1, 2], "age": (0, 99)})


def people(n=600):
    rng = np.random.default_rng(0)
    codes, flags = rng.choice(SCHEMA["postcode"].levels, n), rng.choice(SCHEMA["flag"].levels, n)
    return pd.DataFrame({"postcode": codes, "flag": flags, "floor": rng.integers(0, 3, n), "age": rng.integers(0, 100, n)})


@pytest.fixture(params=["people.csv", "people.tsv", "people.csv.gz"])
def path(request, tmp_path):
    people().to_csv(tmp_path / request.param, index=False, sep="\t" if request.param.endswith("tsv") else ",")
    return tmp_path / request.param


@pytest.mark.parametrize("schema", [SCHEMA, dict(SCHEMA)], ids=["Schema", "dict"])
def test_codes_keep_their_zeros_and_give_the_model_of_the_frame(path, schema):
    model = LatentFactorSynthesizer(schema, epsilon=1.0, random_state=7)
    expected = model.fit(people()).sample(50, random_state=0)
    got = model.fit(str(path)).sample(50, random_state=0)
    assert set(got["postcode"]) == set(SCHEMA["postcode"].levels)
    assert got.astype(str).equals(expected.astype(str))


def test_all_that_take_a_schema_read_the_same_codes(path):
    assert len(SCHEMA.check(path)) == 0
    assert marginal_total_variation(path, people(), SCHEMA) == 0
    encoder = MixedTypeEncoder(SCHEMA).fit(path)
    assert np.array_equal(encoder.transform(path), encoder.transform(people()))


def test_a_site_reads_its_file_by_the_schema_that_was_agreed_on(path):
    model, head = LatentFactorSynthesizer(SCHEMA, epsilon=1.0, random_state=7), people()[:0]
    north, south = Site(path, schema=SCHEMA), Site(people(), schema=dict(SCHEMA))
    sites = Sites({"north": north.answer, "south": south.answer}, head=head)
    expected = model.fit(pd.concat([people(), people()])).sample(50, random_state=0)
    assert model.fit(sites).sample(50, random_state=0).astype(str).equals(expected.astype(str))
