"""The form in Chromium, as a person walks through it; skipped where there is none."""

import os
import re
import shutil
from contextlib import suppress
from pathlib import Path

import pytest
from walks import BUDGET, CANARY, text_of_people

from skdpsynth import PrivacyAccountant

sync_api = pytest.importorskip("playwright.sync_api")
from test_process import Served  # noqa: E402 - Chromium may be absent

AXE = os.environ.get("SKDPSYNTH_AXE")  # the file axe.min.js of npm's axe-core
LEDGER = "people-of-2026.db"
WAIT = 120_000  # milliseconds that a command may take on a busy machine
expect = sync_api.expect  # waits, where a question asked of the page at once would see one that is not done yet
expect.set_options(timeout=WAIT)


@pytest.fixture(scope="module")
def chromium():
    with sync_api.sync_playwright() as driver:
        found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
        found = found or (driver.chromium.executable_path if os.path.exists(driver.chromium.executable_path) else None)
        if found is None:
            pytest.skip("needs Chromium")
        browser = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def served(chromium, tmp_path_factory):
    served = Served(tmp_path_factory.mktemp("served"))
    yield served
    served.process.kill()
    served.process.wait()


@pytest.fixture
def page(chromium, served):
    context = chromium.new_context()
    page = context.new_page()
    page.set_default_timeout(WAIT)
    foreign, wrong = [], []
    page.on("request", lambda request: foreign.append(request.url) if not request.url.startswith((served.address, "data:")) else None)
    page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    page.goto(served.address)
    yield page
    assert foreign == []
    assert wrong == []  # as one line for each style or script that the policy forbids
    context.close()


def arrive(page, name):
    page.wait_for_url(re.compile(rf"/{name}(\?n=\d+)?$"))


def choose(page, text, name="people.csv"):
    page.set_input_files("#file", {"name": name, "mimeType": "text/csv", "buffer": text.encode()})
    page.get_by_role("button", name="Read the names").click()


def state(page, **fields):
    """Type into fields, by their names; those of other kinds are hidden."""
    for name, text in {"low.0": "18", "high.0": "99", "low.1": "0", "high.1": "50000", **fields}.items():
        page.locator(f'[id="{name}"]').fill(text)


def to_release(page, text=None, dataset=BUDGET["dataset"]):
    choose(page, text or text_of_people())
    arrive(page, "columns")
    page.get_by_label("Each row is one person").check()
    state(page)
    page.locator('[id="kind.3"]').select_option("identifier")
    page.get_by_role("button", name="Check the table").click()
    arrive(page, "check")
    page.get_by_role("link", name="Go on to the budget").click()
    arrive(page, "budget")  # count does not wait
    if page.get_by_label(f"Go on with {LEDGER}").count():
        page.get_by_label(f"Go on with {LEDGER}").check()
    else:
        page.get_by_label("Name of the data set").fill(dataset)
    page.get_by_role("button", name="Go on to the release").click()
    arrive(page, "release")


def spend(page, epsilon):
    page.get_by_label("Epsilon", exact=True).fill(epsilon)
    page.get_by_role("button", name="Spend it").click()


def spent(served):
    return PrivacyAccountant.at(served.ledgers / LEDGER).spent


def test_a_person_walks_from_a_file_to_results(page, served, tmp_path):
    to_release(page)
    page.get_by_role("button", name="Preview the errors").click()
    arrive(page, "job")
    expect(page.get_by_role("progressbar")).to_have_count(1)
    arrive(page, "release")
    expect(page.get_by_role("row")).to_have_count(5)
    spend(page, "0.5")
    arrive(page, "result")
    assert 0 < spent(served) <= 0.5
    for name in ("synthetic.csv", "card.html", "model.skdp", "schema.yaml", "repeat.sh"):
        with page.expect_download() as download:
            page.get_by_role("link", name=name).click()
        download.value.save_as(tmp_path / name)
    assert (tmp_path / "synthetic.csv").read_text(encoding="utf-8").count("\n") == 401
    expect(page.frame_locator("iframe").get_by_text("Made for the public")).to_have_count(1)
    page.get_by_role("button", name="Compare with my rows").click()
    arrive(page, "private")
    assert page.get_by_role("heading", level=1).inner_text() == "Private, do not publish"
    expect(page.frame_locator("iframe").get_by_text("Synthetic against real rows")).to_have_count(1)


def test_a_wrong_schema_is_corrected_where_it_stands(page):
    choose(page, text_of_people())
    arrive(page, "columns")
    assert CANARY not in page.content()
    state(page, **{"high.0": "12", "low.1": "abc"})
    page.get_by_role("button", name="Check the table").click()
    summary = page.get_by_role("alert")
    summary.wait_for()
    expect(summary).to_be_focused()  # a reader hears it first
    expect(page.locator('[id="low.1"]')).to_have_value("abc")
    expect(page.locator('[id="low.1"]')).to_have_attribute("aria-invalid", "true")
    summary.get_by_role("link", name="income, low").click()
    expect(page).to_have_url(re.compile(r"#low\.1$"))
    expect(page.locator('[id="levels.0"]')).to_be_hidden()
    page.locator('[id="kind.0"]').select_option("nominal")
    expect(page.locator('[id="levels.0"]')).to_be_visible()
    expect(page.locator('[id="low.0"]')).to_be_hidden()


def test_a_refused_budget_says_so_beside_epsilon(page, served):
    to_release(page)
    before = spent(served)
    spend(page, "9")
    page.locator("#epsilon-fault").wait_for()
    assert "Nothing was charged" in page.locator("#epsilon-fault").inner_text()
    assert page.get_by_label("Epsilon", exact=True).input_value() == "9"
    assert spent(served) == before


def test_two_tabs_do_not_disturb_each_other(page, served):
    other = page.context.new_page()
    other.set_default_timeout(WAIT)
    to_release(page)
    before = spent(served)
    other.goto(served.address)
    choose(other, "age,weight\n" + "".join(f"{20 + i % 60},{50 + i % 90}\n" for i in range(400)), "weights.csv")
    arrive(other, "columns")
    other.get_by_label("Each row is one person").check()
    state(other, **{"high.1": "300"})
    spend(page, "0.1")
    other.get_by_role("button", name="Check the table").click()
    arrive(other, "check")
    arrive(page, "result")
    assert page.locator("h1").inner_text() == "Your synthetic table is ready"
    other.get_by_role("link", name="Go on to the budget").click()
    expect(other.get_by_label(f"Go on with {LEDGER}")).to_have_count(1)
    assert page.locator("h1").inner_text() == "Your synthetic table is ready"
    assert 0 < spent(served) - before <= 0.11


def test_a_cancelled_fit_leaves_the_ledger_right(page, served):
    to_release(page, text_of_people(60_000))
    before = spent(served)
    spend(page, "0.2")
    arrive(page, "job")
    with suppress(sync_api.TimeoutError):
        page.get_by_text("fit the latent factors").wait_for(timeout=WAIT)
    page.get_by_role("button", name="Cancel").click()
    arrive(page, "release")
    told = page.get_by_role("alert").inner_text()
    assert "Cancelled." in told
    assert ("The budget was charged" in told) == (spent(served) > before)
    assert page.get_by_label("Epsilon", exact=True).input_value() == "0.2"


@pytest.mark.skipif(AXE is None, reason="needs SKDPSYNTH_AXE, the path of axe.min.js")
def test_no_page_has_a_barrier_that_axe_knows(chromium, served):
    context = chromium.new_context(bypass_csp=True)
    page = context.new_page()
    page.set_default_timeout(WAIT)
    script, found = Path(AXE).read_text(encoding="utf-8"), {}

    def look(name):
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            for width in (1280, 390):
                page.set_viewport_size({"width": width, "height": 900})
                page.evaluate(script)
                violations = page.evaluate("axe.run(document, {iframes: false}).then(found => found.violations.map(each => each.id))")
                wide = page.evaluate("document.documentElement.scrollWidth")
                if violations or wide > width:
                    found[name, scheme, width] = violations, wide

    page.goto(served.address)
    look("file")
    choose(page, text_of_people())
    arrive(page, "columns")
    look("columns")
    page.get_by_role("button", name="Check the table").click()
    page.get_by_role("alert").wait_for()
    look("columns with faults")
    page.goto(served.address)
    to_release(page)
    for name in ("check", "budget", "release"):
        page.goto(re.sub(r"\w+$", name, page.url))
        look(name)
    spend(page, "9")
    page.locator("#epsilon-fault").wait_for()
    look("release with faults")
    spend(page, "0.1")
    arrive(page, "result")
    look("result")
    page.get_by_role("button", name="Compare with my rows").click()
    arrive(page, "private")
    look("private")
    page.goto(served.address + "none")
    look("missing")
    context.close()
    assert found == {}
