"""A browser without a window for the form: it keeps the page that it is on, and sends what a form on it would."""

import re
import time
from html import unescape

import numpy as np
import pytest

for package in ("click", "yaml", "pyarrow", "jinja2", "matplotlib", "starlette", "uvicorn", "python_multipart", "httpx2"):
    pytest.importorskip(package)

from internals import Form, Guard, in_words_of_commands  # noqa: E402 - what they need may be absent
from starlette.testclient import TestClient  # noqa: E402

TOKEN, PORT = "the-token", 4711
CANARY = "zebra-7431"
FACTS = {"whose": "row", "kind.0": "whole", "low.0": "18", "high.0": "99", "kind.1": "number", "low.1": "0", "high.1": "50000"}
FACTS |= {"kind.2": "boolean", "words.2": "no, yes", "kind.3": "identifier", "rules": ""}
BUDGET = {"ledger": "new", "dataset": "people of 2026", "epsilon": "3", "delta": "1e-5", "relation": "replace_one"}
RELEASE = {"epsilon": "1", "delta": "1e-6", "rows": "", "target": "", "about": "400"}


def text_of_people(n=400):
    """Rows whose last column nobody may see outside of the private folder."""
    rng = np.random.default_rng(0)
    age, smokes = rng.integers(18, 90, n), rng.choice(["no", "yes"], n)
    rows = [f"{a},{500 * a + i % 7}.5,{s},{CANARY}" for i, (a, s) in enumerate(zip(age, smokes, strict=True))]
    return "\n".join(["age,income,smokes,note", *rows]) + "\n"


class Program:
    """The form as a program that runs, without a server."""

    def __init__(self, place, ledgers):
        for folder in (place, ledgers):
            folder.mkdir(exist_ok=True)
        self.place, self.ledgers, self.stopped = place, ledgers, []
        self.form = Form(place, ledgers, in_words_of_commands, lambda: self.stopped.append(True))
        self.app = Guard(self.form.app, TOKEN, PORT)


class Tab:
    """A tab of a browser."""

    def __init__(self, program):
        self._client = TestClient(program.app, base_url=f"http://127.0.0.1:{PORT}", headers={"origin": f"http://127.0.0.1:{PORT}"})
        self.seen = {}  # by the name of a page: its last text
        self.get("")

    def _came(self, answer):
        self.answer, self.text, self.page = answer, answer.text, str(answer.url).rpartition("/")[2]
        self.seen[self.page] = self.text
        assert answer.status_code == 200, answer.text
        return self

    def get(self, page):
        return self._came(self._client.get(self._address(page)))

    def post(self, page, **more):
        return self._came(self._client.post(self._address(page), **more))

    def _address(self, page):
        here = str(self.answer.url).rpartition("/")[0] + "/" if hasattr(self, "answer") else f"http://127.0.0.1:{PORT}/{TOKEN}/"
        return here + page

    def choose(self, text, name="people.csv", **typed):
        return self.post("file" if self.page else "", files={"file": (name, text)}, data=typed)

    def wait(self, until=lambda tab: False):
        """Wait for the command that runs, or until something is seen of it."""
        for _ in range(600):
            if self.page != "job" or until(self):
                return self
            time.sleep(0.1)
            self.get("job")
        raise AssertionError("the command does not end")

    def doing(self):
        return self._client.get(self._address("state")).json().get("doing", "")

    def faults(self):
        """Return the sentences beside fields, by the names of these."""
        found = re.findall(r'<p class="fault" id="(.*?)-fault">(.*?)</p>', self.text)
        return {name: unescape(sentence) for name, sentence in found}

    def summary(self):
        found = re.search(r'role="alert".*?</div>', self.text, re.DOTALL)
        return unescape(re.sub(r"<[^>]+>", " ", found[0])) if found else ""

    def value(self, name):
        """Return what stands in a field."""
        found = re.search(rf'name="{re.escape(name)}"\s+value="(.*?)"', self.text)
        return unescape(found[1])

    def release(self, action="fit", **typed):
        return self.post("release", data={"ticket": self.value("ticket"), **RELEASE, "action": action, **typed})

    def to_release(self, text=None, facts=FACTS, **budget):
        """Go from the first page to that of the release; nobody waits for the check."""
        self.choose(text or text_of_people()).post("columns", data=facts).post("cancel", data={})
        return self.get("budget").post("budget", data={**BUDGET, **budget})
