"""Code of the pages fits beside their two side bars on a screen of 1280 pixels, without lines that go on below."""

import re

from extensions import DOCS

MOST = 84  # letters
CODE = re.compile(r"^```(?:python|pycon)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)


def too_wide(text):
    """The lines of Python that are wider; what code prints is as wide as it is."""
    lines = [line for block in CODE.findall(text) for line in block.splitlines()]
    is_doctest = [">>> " in block for block in CODE.findall(text) for _ in block.splitlines()]
    return [line for line, only in zip(lines, is_doctest, strict=True) if len(line) > MOST and (not only or line.startswith(">>> "))]


def test_code_of_pages_is_not_wider_than_a_page():
    found = {path.name: lines for path in [DOCS.parent / "README.md", *DOCS.glob("*.md")] if (lines := too_wide(path.read_text("utf-8")))}
    assert found == {}


def test_a_wide_line_is_found():
    wide = "x" * (MOST + 1)
    assert too_wide(f"{wide}\n```python\n{wide}\n```\n") == [wide]
    assert too_wide(f"```pycon\n>>> 1\n{wide}\n```\n") == []
