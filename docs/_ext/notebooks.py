"""Write examples as notebooks: text, code, no outputs.

    python docs/_ext/notebooks.py

Each block of an example that begins with ``# %%`` becomes a cell of text and one of code. `tests/docs` compares the notebooks with the
examples that they were made from.
"""

import ast
import json
import re
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"
CHOSEN = ("plot_quickstart", "plot_planning", "plot_patients", "plot_linked_households", "plot_year_of_releases")


def as_markdown(text: str) -> str:
    """Return the text of an example as a notebook writes it: titles with a mark, names in single backticks."""
    text = re.sub(r"^(.+)\n=+$", r"# \1", text, flags=re.MULTILINE)
    text = re.sub(r"^(.+)\n-+$", r"## \1", text, flags=re.MULTILINE)
    return text.replace("``", "`").strip()


def cells(source: str) -> list[tuple[str, str]]:
    """Return the kind and the text of each cell."""
    first, *blocks = re.split(r"^# %%\n", source, flags=re.MULTILINE)
    body = ast.parse(first).body
    text, rest = ast.get_docstring(ast.parse(first)) or "", "\n".join(first.split("\n")[body[0].end_lineno :])
    found = [("markdown", as_markdown(text)), ("code", rest.strip())]
    for block in blocks:
        comment = re.match(r"(?:#.*\n)*", block)[0]
        found += [("markdown", as_markdown(re.sub(r"^# ?", "", comment, flags=re.MULTILINE))), ("code", block[len(comment) :].strip())]
    return [(kind, text) for kind, text in found if text]


def notebook(source: str) -> str:
    """Return a notebook of an example, as text."""
    made = []
    for number, (kind, text) in enumerate(cells(source)):
        extra = {"execution_count": None, "outputs": []} if kind == "code" else {}
        made.append({"cell_type": kind, "id": str(number), "metadata": {}, **extra, "source": text.splitlines(keepends=True)})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    facts = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return json.dumps({"cells": made, "metadata": facts, "nbformat": 4, "nbformat_minor": 5}, indent=1) + "\n"


def main() -> None:
    """Write them."""
    for name in CHOSEN:
        source = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
        (EXAMPLES / "notebooks" / f"{name.removeprefix('plot_')}.ipynb").write_text(notebook(source), encoding="utf-8")


if __name__ == "__main__":
    main()
