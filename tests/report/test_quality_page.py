"""A quality report as a page."""

import pytest

pytest.importorskip("jinja2")
pytest.importorskip("pandas")

from skdpsynth.metrics import QualityReport
from skdpsynth.report import quality_page

HOSTILE = "<script>x</script>"
REPORT = QualityReport(
    n_real=1000,
    n_synthetic=900,
    marginals={"age": 0.01, HOSTILE: 0.25},
    pairs={("age", HOSTILE): 0.3},
    correlation_error=0.02,
    wasserstein=0.05,
    auc={"synthetic": 0.81, "real": 0.9},
    broken={"age: out of bounds": 0.125},
    halves={"marginals": 0.005},
    scoring="roc_auc",
)


def test_every_section_says_that_it_is_not_private_and_every_number_stands_on_a_valid_page(tmp_path):
    page = quality_page(REPORT, title=HOSTILE)
    html = page.to_html()
    assert html.count("Not private</p>") == html.count("<section>") == 5
    assert "NOT PRIVATE" in html
    assert HOSTILE not in html
    for number in ("0.0100", "0.2500", "0.3000", "0.0200", "0.0500", "0.8100", "0.9000", "0.1250", "0.0050", "1,000", "900"):
        assert number in html
    page.save(tmp_path / "quality.html")
    assert (tmp_path / "quality.html").read_text(encoding="utf-8") == html
    pytest.importorskip("html5lib").HTMLParser(strict=True).parse(html)


def test_a_report_of_one_column_has_no_empty_sections():
    none = {"pairs": {}, "correlation_error": None, "auc": None, "broken": {}}
    alone = QualityReport(n_real=3, n_synthetic=3, marginals={"a": 0.5}, wasserstein=0.1, **none)
    assert quality_page(alone).to_html().count("<section>") == 2
