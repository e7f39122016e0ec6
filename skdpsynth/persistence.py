"""Saving and loading of estimators without code execution: one zip of JSON and arrays.

A file names classes, and only those that imported modules have marked (`savable`) are made: a class in a file is never imported. Arrays
are read without pickle. So a file from anywhere can be opened safely, though its content need not be true. Loaded objects are checked
against the declarations of their classes: see `_serialization`.
"""

import io
import json
import math
import os
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np

from skdpsynth._atomic_write import PendingFile, atomic_write, output_path, write_pending
from skdpsynth._serialization import DTYPES, InvalidFile, check_usable, decode, encode, is_savable, savable
from skdpsynth._validation import check_string, short_repr

__all__ = ["from_bytes", "load", "savable", "save", "to_bytes"]

_FORMAT = 2
_MOST_TEXT = 1 << 25  # bytes of JSON: arrays lie apart, so there is little of it
_MOST_PARTS = 1 << 21  # lists and objects of JSON, each of which takes a hundred bytes of memory and more
_MAX_COMPRESSION = 256  # bytes that one byte of a file may stand for; what save writes, at level 1, reaches 230
_DATE = (1980, 1, 1, 0, 0, 0)  # of all members: a file depends on nothing but the object
_TRIES = 100  # Python before 3.11.8 and 3.12.2 may fail to parse a header while another thread parses one, too
_JSON_MEMBER = "object.json"


def save(thing: object, path: str | os.PathLike[str]) -> None:
    """Write an estimator, or a counter, to a file.

    The file is complete or not there: it is written beside its place and moved. It holds what a pickle would, but no seed: an
    estimator of public results may be published, a stream in progress (`OnlineSynthesizer`, counters) is as private as the data, so
    only its owner may read the file. A link stays, and what it leads to is replaced. Files of equal objects are equal byte for byte.

    Parameters
    ----------
    thing : estimator or counter
        An object of this package, or of a class of your own that is marked with `savable`.
    path : str or path-like
        The place of a plain file in a folder that exists.

    Raises
    ------
    OSError, ValueError
        If nothing can be written there. An earlier file is then still there.
    TypeError
        If its class, or that of a parameter such as a partition of the caller's own, is not marked with `savable`.

    See Also
    --------
    skdpsynth.load : Read the file.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from skdpsynth import PrivatePCA, load
    >>> from skdpsynth.persistence import save
    >>> pca = PrivatePCA(1, epsilon=100.0, bounds=(0, 1)).fit(np.random.default_rng(0).random((100, 3)))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(pca, os.path.join(folder, "pca.skdp"))
    ...     again = load(os.path.join(folder, "pca.skdp"))
    >>> bool((again.components_ == pca.components_).all())
    True
    """
    place, write = output_path(path), _writer_of(thing)
    # A stream keeps the rows of its open block.
    is_private = getattr(thing, "_state_is_private", True) or hasattr(thing, "partial_fit")
    with atomic_write(place, is_private=is_private) as file:
        write(file)


def save_pending(thing: object, place: Path) -> PendingFile:
    return write_pending(place, _writer_of(thing))


def to_bytes(thing: object) -> bytes:
    """Return the bytes of a file of `save`, to be sent or kept elsewhere; equal objects give equal bytes.

    Parameters
    ----------
    thing : object
        An object of a class that is marked with `savable`.

    See Also
    --------
    skdpsynth.persistence.from_bytes : The way back.

    Examples
    --------
    >>> from skdpsynth import PrivatePCA
    >>> from skdpsynth.persistence import from_bytes, to_bytes
    >>> from_bytes(to_bytes(PrivatePCA(1, bounds=(0, 1))))
    PrivatePCA(bounds=(0, 1), n_components=1)
    """
    file = io.BytesIO()
    _writer_of(thing)(file)
    return file.getvalue()


def _writer_of(thing: object) -> Callable[[BinaryIO], None]:
    """Return what writes an object to a file, or refuse it before the file is touched."""
    kind = type(thing).__name__
    if not is_savable(type(thing)):
        raise TypeError(f"A {kind} cannot be saved; mark the class itself, even if its base is marked, with skdpsynth.persistence.savable.")
    arrays: dict[str, np.ndarray] = {}
    text = json.dumps({"format": _FORMAT, "object": encode(thing, arrays, kind)}, allow_nan=False).encode()
    if _is_too_long(text):
        raise ValueError(f"A {kind} of so many parts cannot be saved, {len(text) >> 20} MB of text; keep fewer of them.")

    def write(file: BinaryIO) -> None:
        archive = zipfile.ZipFile(file, "w")
        try:
            for name, content in [(_JSON_MEMBER, text), *arrays.items()]:
                entry, data = zipfile.ZipInfo(name, _DATE), cast(Any, content)
                entry.external_attr = 0o600 << 16
                if isinstance(content, np.ndarray):
                    member = io.BytesIO()
                    np.save(member, content, allow_pickle=False)
                    data = member.getbuffer()
                archive.writestr(entry, data, zipfile.ZIP_DEFLATED, compresslevel=1)
            archive.close()
        except BaseException:
            archive.fp = None  # closing would complain of the open member, in place of what went wrong: an interrupt even
            raise

    return write


def load(path: str | os.PathLike[str], accountant: object = None) -> Any:
    """Read a file of `save`: a fitted estimator that samples, transforms and, where it is a stream, goes on.

    No code of the file runs and no module that it names is imported: import the module of a class of your own first. Seeds are not in
    it: set ``random_state`` again where you had one. Going on twice from one file is two releases.

    A stream that was killed in `partial_fit` with `save` is put in order here: where its ledger says that rows were taken in, what
    was written beside `path` is moved there. Then ``n_samples_seen_`` (or ``n_ticks_seen_``) says which rows to feed next.

    Parameters
    ----------
    path : str or path-like
    accountant : PrivacyAccountant, str or path-like, default=None
        The accountant to charge from now on. For a stream whose ledger is in a file: that ledger where it lies now, or another in a
        file that has imported its charges by `import_record`. For any other estimator: its parameter `accountant`. None: as it was saved.

    Returns
    -------
    thing : estimator or counter

    Raises
    ------
    ValueError
        If the file was not written by `save`, or by another version of it, or holds a class that no imported module has marked, or if
        it cannot have this `accountant`.
    LedgerError
        If the ledger of `accountant` does not hold all that the stream was charged.
    ImportError
        If it was fitted to a table of a library that is not installed.
    MemoryError
        If what it holds does not fit into memory.

    See Also
    --------
    skdpsynth.persistence.save : Write the file.
    skdpsynth.persistence.savable : Let a class of your own be saved.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import numpy as np
    >>> import skdpsynth
    >>> model = skdpsynth.PrivateMeasureMechanism(bounds=(0, 1)).fit(np.random.default_rng(0).random((500, 1)))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(pathlib.Path(folder) / "model.zip")
    ...     again = skdpsynth.load(pathlib.Path(folder) / "model.zip")
    >>> again.sample(3).shape
    (3, 1)
    """
    if not isinstance(path, str | os.PathLike):  # a number would be one of this process's open files
        raise TypeError(f"path must be a path of a file that was written by save, got {short_repr(path)}.")
    thing = _load_path(path)
    if accountant is not None:
        if not hasattr(thing, "_charge_to"):
            raise ValueError(f"accountant must be None for a {type(thing).__name__}, which has no such parameter; leave it out.")
        thing._charge_to(accountant)
    return thing._recover(path, _load_path) if hasattr(thing, "_recover") else thing


def _load_path(path: str | os.PathLike[str]) -> Any:
    try:
        file = open(path, "rb")  # noqa: SIM115
    except (OSError, ValueError) as error:  # a ValueError: no name of a file at all
        reason = f" ({error.strerror})" if isinstance(error, OSError) else ""
        message = f"path must be a file that can be read, got {short_repr(os.fspath(path))}{reason}; correct it."
        raise (type(error) if isinstance(error, OSError) else ValueError)(message) from None
    with file:
        return _read_file(file, os.fstat(file.fileno()).st_size, str(path), "save")


def from_bytes(data: bytes, name: str = "data") -> Any:
    """Read the bytes of `to_bytes`: no code in them runs, and no module that they name is imported.

    Parameters
    ----------
    data : bytes
    name : str, default="data"
        Its name in messages.

    Returns
    -------
    thing : object

    Raises
    ------
    ValueError
        If these are no such bytes, or hold a class that no imported module has marked.

    See Also
    --------
    load : Reads a file.

    Examples
    --------
    >>> from skdpsynth import PrivatePCA
    >>> from skdpsynth.persistence import from_bytes, to_bytes
    >>> from_bytes(to_bytes(PrivatePCA(2, bounds=(0, 1)))).n_components
    2
    """
    name = check_string("name", name)
    if not isinstance(data, bytes | bytearray | memoryview):
        raise TypeError(f"{name} must be bytes, as to_bytes returned them, got {short_repr(data)}.")
    return _read_file(io.BytesIO(data), len(data), name, "to_bytes")


def _read_file(file: BinaryIO, size: int, name: str, writer: str) -> Any:
    try:
        with zipfile.ZipFile(file) as archive:
            return _read_archive(archive, size)
    except InvalidFile as error:
        raise ValueError(f"{name} {error}") from None
    except ImportError as error:
        missing = error.name or "a library"
        raise ImportError(f"{name} needs {missing}, which is not installed; install it with `pip install {missing}`.") from None
    except MemoryError:
        raise MemoryError(f"{name} holds more than there is memory for; load it where there is more.") from None
    except Exception as error:  # whatever a damaged file makes a parser say
        raise ValueError(f"{name} was not written by {writer}, or is damaged ({type(error).__name__}); write it again.") from None


def _read_archive(archive: zipfile.ZipFile, size: int) -> Any:
    if (
        archive.getinfo(_JSON_MEMBER).file_size > _MOST_TEXT
        or sum(member.file_size for member in archive.infolist()) > _MAX_COMPRESSION * size
    ):
        raise InvalidFile("holds more than save writes into a file of its size; it was not written by save.")
    text = archive.read(_JSON_MEMBER)
    if _is_too_long(text):
        raise InvalidFile("holds more parts than save writes; it was not written by save.")
    content = json.loads(text)
    if type(number := content["format"]) is not int:
        raise InvalidFile("has no number of a format; it was not written by save.")
    if number != _FORMAT:
        raise InvalidFile(f"has format {short_repr(number)}, and this skdpsynth reads {_FORMAT}; load it with the one that saved it.")
    if "class" not in content["object"]:
        raise InvalidFile("holds no estimator or counter; it was not written by save.")
    return check_usable(decode(content["object"], cache(lambda name: _read_array(archive, name))))  # each is read once, however often named


def _is_too_long(text: bytes) -> bool:
    return len(text) > _MOST_TEXT or text.count(b"[") + text.count(b"{") > _MOST_PARTS


def _read_array(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    """Read one array, whose header must tell the truth about its size."""
    data = archive.read(name)
    for n_left in reversed(range(_TRIES)):
        stream = io.BytesIO(data)
        try:
            version = np.lib.format.read_magic(stream)
            shape, _, dtype = (np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0)(stream)
            if dtype.kind not in DTYPES or math.prod(shape) * dtype.itemsize != len(data) - stream.tell():
                break
            return np.load(io.BytesIO(data), allow_pickle=False)
        except SystemError:
            if not n_left:
                raise
    raise InvalidFile(f"holds {name}, which is no array as save writes it.")
