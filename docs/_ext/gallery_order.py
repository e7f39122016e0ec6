"""The order of the examples: that in which ``examples/README.rst`` names them, by the person who asks."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "examples" / "README.rst"


class AsNamed:
    """Sort key of the names of example files; one that is not named comes last.

    Parameters
    ----------
    folder : str
        Of the examples.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.names = re.findall(r"<sphx_glr_auto_examples_(\w+\.py)>", PAGE.read_text(encoding="utf-8"))

    def __call__(self, name: str) -> tuple[int, str]:
        """Return what a file is sorted by."""
        return (self.names.index(name) if name in self.names else len(self.names)), name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.names})"  # part of what tells whether the gallery must be made again
