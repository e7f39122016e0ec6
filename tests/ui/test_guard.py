"""Who is let in, and what a page may load, store and say."""

import hmac
import re
from urllib.parse import urlsplit

import pytest
from walks import CANARY, FACTS, PORT, TOKEN, Tab, text_of_people

HERE = f"http://127.0.0.1:{PORT}"


@pytest.fixture
def client(program):
    from starlette.testclient import TestClient

    return TestClient(program.app, base_url=HERE, follow_redirects=False)


@pytest.mark.must
@pytest.mark.parametrize(
    "path", ["/", "", "/wrong/", f"/{TOKEN}x/", f"/{TOKEN[:-1]}/", "/style.css", "/w/a/columns", f"/{TOKEN.upper()}/", "/ä/"]
)
def test_without_the_token_there_is_no_page(client, path):
    assert client.get(path).status_code == 403
    assert client.post(path, headers={"origin": HERE}).status_code == 403
    assert client.get(f"/{TOKEN}/").status_code == 200


@pytest.mark.must
def test_tokens_are_compared_in_constant_time(client, monkeypatch):
    compared = []
    monkeypatch.setattr(hmac, "compare_digest", lambda one, other: compared.append((one, other)) or one == other)
    assert client.get("/wrong/").status_code == 403
    assert compared == [(b"wrong", TOKEN.encode())]


@pytest.mark.must
@pytest.mark.parametrize(
    "host", ["evil.example", f"evil.example:{PORT}", "127.0.0.1", f"127.0.0.1:{PORT + 1}", "127.0.0.1.evil.example", ""]
)
def test_a_name_that_leads_here_is_refused(client, host):
    """As after DNS rebinding."""
    assert client.get(f"/{TOKEN}/", headers={"host": host}).status_code == 403
    assert client.get(f"/{TOKEN}/", headers={"host": f"localhost:{PORT}"}).status_code == 200


@pytest.mark.must
@pytest.mark.parametrize(
    "origin", [None, "null", "http://evil.example", "https://127.0.0.1:4711", f"http://localhost:{PORT}", f"{HERE}.evil.example"]
)
def test_a_form_of_another_site_is_refused(client, origin):
    headers = {} if origin is None else {"origin": origin}
    assert client.post(f"/{TOKEN}/", headers=headers).status_code == 403
    assert client.get(f"/{TOKEN}/", headers=headers).status_code == (200 if origin is None else 403)
    assert client.post(f"/{TOKEN}/", headers={"origin": HERE}).status_code == 303


def test_every_answer_forbids_foreign_resources_and_storing(client, walked):
    policies = []
    for path in ("/", f"/{TOKEN}/", f"/{TOKEN}/style.css", f"/{TOKEN}/script.js", f"/{TOKEN}/none", f"/{TOKEN}/w/none/columns"):
        answer = client.get(path)
        policies.append(answer.headers["content-security-policy"])
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "set-cookie" not in answer.headers
        assert "server" not in answer.headers
    policies += [tab_of(walked).get("result").answer.headers["content-security-policy"]]
    (policy,) = {*policies}
    assert policy.startswith("default-src 'none';")
    assert not re.search(r"unsafe|\*|http", policy)


def tab_of(walked):
    return walked[1]


def test_documents_run_no_script_and_load_nothing(walked):
    for name in ("card.html", "evaluation-private.html"):
        answer = tab_of(walked).get("result").get(f"download?n=1&name={name}&show").answer
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'")
        assert "sandbox" in policy
        assert "script-src" not in policy


def test_every_address_in_every_page_is_relative(walked):
    _, tab = walked
    seen = {page.partition("?")[0] for page in tab.seen}
    assert seen >= {"", "columns", "job", "check", "budget", "release", "result", "private"}
    for page, text in tab.seen.items():
        if "download" in page:
            continue
        found = re.findall(r'\b(?:href|src|action|formaction|poster|data|srcset)="(.*?)"', text)
        assert found
        assert [address for address in found if urlsplit(address).scheme not in ("", "data") or urlsplit(address).netloc] == []
        assert not re.search(r"<style|\sstyle=|<script(?! src=)|\son\w+=|@import", text), page


def test_style_and_script_load_nothing_from_elsewhere(client):
    for name in ("style.css", "script.js"):
        assert not re.search(
            r"https?:|//\w|url\(|@import|localStorage|indexedDB|cookie", client.get(f"/{TOKEN}/{name}").text.replace("// ", "")
        )


def test_cells_stand_on_no_page_that_is_not_headed_as_private(walked):
    _, tab = walked
    for page, text in tab.seen.items():
        if page.partition("?")[0] not in ("check", "private"):
            assert CANARY not in text
    assert "<h1>Private, do not publish" in tab.get("check").text
    assert "<h1>Private, do not publish" in tab.get("private?n=1").text


def test_an_unforeseen_error_says_its_type_alone(program, tab, monkeypatch, capfd, caplog):
    tab.choose(text_of_people())

    def fail(*_):
        raise KeyError(CANARY)

    monkeypatch.setattr(program.form, "_words_of_files", fail)
    answer = tab._client.post(tab._address("columns"), data={**FACTS, "rules": "age <= size"})
    assert answer.status_code == 500
    assert "KeyError" in answer.text
    assert CANARY not in answer.text + "".join(capfd.readouterr()) + caplog.text


def test_pages_of_walks_that_are_not_there_lead_back_to_the_beginning(program):
    tab = Tab(program)
    answer = tab._client.get(f"/{TOKEN}/w/none/columns")
    assert answer.status_code == 404
    assert 'href="../../"' in answer.text
