"""The page about release cards shows what Python shows."""

import doctest
import re
from pathlib import Path

import pytest

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")

PAGE = Path(__file__).parents[2] / "docs" / "release_card.md"


@pytest.mark.skipif(not PAGE.exists(), reason="needs the source tree")
@pytest.mark.filterwarnings("ignore::skdpsynth.exceptions.BoundsWarning")
def test_the_page_about_cards_shows_what_python_shows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = "\n".join(re.findall(r"^```pycon\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE))
    test = doctest.DocTestParser().get_doctest(code, {}, "release_card.md", None, 0)
    assert len(test.examples) >= 15
    assert doctest.DocTestRunner().run(test).failed == 0
    assert (tmp_path / "card.html").exists()
