"""Files that are complete or not there."""

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def whole_file(path: Path, *, is_private: bool = False) -> Iterator[BinaryIO]:
    """Yield a new file beside a place, and move it there when the block is done; if it breaks, an interrupt as well, nothing is changed.

    The mode is given as the file is made: to ask for the umask is to set it, for all threads, so a file that another thread makes
    meanwhile would be open to everybody.

    Parameters
    ----------
    path : Path
        In a folder that exists. What stands there is replaced.
    is_private : bool, default=False
        Whether only the owner may read the file. Else it has the mode of the file that it replaces, or that of any new one.

    Yields
    ------
    file : binary file
    """
    beside = path.parent / f".{uuid.uuid4().hex}.part"
    mode = 0o600 if is_private else 0o666
    try:
        with open(beside, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            yield file
        if path.exists() and not is_private:
            shutil.copymode(path, beside)
        os.replace(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)  # gone, if an interrupt came right after the move
        raise
