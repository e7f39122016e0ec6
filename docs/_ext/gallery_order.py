"""The order of the examples: the first that a newcomer should see, and the others by name."""

FIRST = ("plot_quickstart.py",)


class FirstThenByName:
    """Sort key of the names of example files.

    Parameters
    ----------
    folder : str
        Of the examples.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, name: str) -> tuple[bool, str]:
        """Return what a file is sorted by."""
        return name not in FIRST, name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({FIRST})"  # part of what tells whether the gallery must be made again
