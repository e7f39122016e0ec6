"""Run the Python blocks of the README, in order and in one namespace: ``pytest tests/readme_blocks.py``."""

import re
from pathlib import Path


def test_the_readmes_code_runs_as_written(tmp_path, monkeypatch):
    text = (Path(__file__).parents[1] / "README.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert len(blocks) >= 3
    monkeypatch.chdir(tmp_path)
    namespace = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), namespace)
    assert float(namespace["budget"].remaining) == 1.5
    assert namespace["synthetic"].shape == (1000, 20)
