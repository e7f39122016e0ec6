"""Saving and loading of estimators without code execution: one zip of JSON and arrays.

A file names classes, and only those of the table here are made; arrays are read without pickle. So a file from anywhere can be
opened safely, though what it says need not be true.
"""

import importlib
import inspect
import io
import json
import math
import os
import re
import tempfile
import zipfile
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
from sklearn.base import BaseEstimator

_FORMAT = 1
# Where each class that may stand in a file lives.
_CLASSES = {
    "PrivatePCA": "skdpsynth.decomposition",
    "PrivateMeasureMechanism": "skdpsynth.synthesis",
    "SignedMeasureMechanism": "skdpsynth.synthesis",
    "LowDimSynthesizer": "skdpsynth.synthesis",
    "OnlineSynthesizer": "skdpsynth.synthesis",
    "LatentFactorSynthesizer": "skdpsynth.synthesis",
    "MixedTypeEncoder": "skdpsynth.domain",
    "Blocks": "skdpsynth.synthesis",
    "GrowingTree": "skdpsynth.synthesis",
    "MarginalModel": "skdpsynth.synthesis",
    "LatentLinks": "skdpsynth.synthesis",
    "ScoreModel": "skdpsynth.synthesis",
    "Box": "skdpsynth.domain",
    "Container": "skdpsynth.domain",
    "Continuous": "skdpsynth.domain",
    "MixedTable": "skdpsynth.domain",
    "Nominal": "skdpsynth.domain",
    "Ordinal": "skdpsynth.domain",
    "Schema": "skdpsynth.domain",
    "BinaryPartition": "skdpsynth.measures",
    "LatentFactors": "skdpsynth.measures",
    "Lattice": "skdpsynth.measures",
    "Link": "skdpsynth.measures",
    "NearestCells": "skdpsynth.measures",
    "DiscreteMeasure": "skdpsynth.measures",
    "NearestMeasure": "skdpsynth.measures",
    "LedgerEntry": "skdpsynth.privacy",
    "PrivacyAccountant": "skdpsynth.privacy",
    "PrivacyLoss": "skdpsynth.privacy",
    "BinaryCounter": "skdpsynth.continual",
    "HonakerCounter": "skdpsynth.continual",
    "InhomogeneousCounter": "skdpsynth.continual",
    "KaryCounter": "skdpsynth.continual",
    "SparseCounter": "skdpsynth.continual",
    "SquareRootCounter": "skdpsynth.continual",
}
_DTYPES = "biuf"
_LONGEST = 4000  # digits of a fraction
_MOST_BYTES = 1 << 34  # that the members of a file may take


def save(thing, path):
    """Write an estimator, or a counter, to a file.

    The file is complete or not there: it is written beside its place and moved. It holds what a pickle would, but no seed: an
    estimator of public results may be published, a stream in progress (`OnlineSynthesizer`, counters) is as private as the data.

    Parameters
    ----------
    thing : estimator or counter of this package
    path : str or path-like

    Raises
    ------
    TypeError
        If a parameter cannot be saved, such as a partition of the caller's own.
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"path must lie in a folder that exists, got {str(path.parent)!r}; make it first.")
    if type(thing).__name__ not in _CLASSES:
        raise TypeError(f"Only estimators and counters of skdpsynth can be saved, got {type(thing).__name__}.")
    arrays: dict = {}
    text = json.dumps({"format": _FORMAT, "object": _encode(thing, arrays, type(thing).__name__)}, allow_nan=False)
    handle, beside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            archive.writestr("object.json", text)
            for name, array in arrays.items():
                member = io.BytesIO()
                np.save(member, array, allow_pickle=False)
                archive.writestr(name, member.getbuffer())
        os.replace(beside, path)
    except BaseException:
        os.unlink(beside)
        raise


def load(path):
    """Read what `save` wrote: a fitted estimator that samples, transforms and, where it is a stream, goes on.

    No code of the file runs. Seeds are not in it: set ``random_state`` again where you had one. Going on twice from one file is two
    releases.

    Parameters
    ----------
    path : str or path-like

    Returns
    -------
    thing : estimator or counter

    Raises
    ------
    ValueError
        If the file was not written by `save`, or by a later version of it.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import numpy as np
    >>> import skdpsynth
    >>> model = skdpsynth.PrivateMeasureMechanism().fit(np.random.default_rng(0).random((500, 1)))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(pathlib.Path(folder) / "model.zip")
    ...     again = skdpsynth.load(pathlib.Path(folder) / "model.zip")
    >>> again.sample(3).shape
    (3, 1)
    """
    with open(path, "rb") as file:
        try:
            with zipfile.ZipFile(file) as archive:
                if sum(member.file_size for member in archive.infolist()) > _MOST_BYTES:
                    raise _Refused(f"holds more than {_MOST_BYTES >> 30} GiB; it was not written by save.")
                told = json.loads(archive.read("object.json"))
                if told["format"] != _FORMAT:
                    raise _Refused(f"has format {told['format']!r}, and this version reads {_FORMAT}; use a newer skdpsynth.")
                if "class" not in told["object"]:
                    raise _Refused("holds no estimator or counter; it was not written by save.")
                return _decode(told["object"], cache(lambda name: _array(archive, name)))  # each is read once, however often named
        except _Refused as error:
            raise ValueError(f"{path} {error}") from None
        except Exception as error:  # whatever a damaged file makes a parser say
            raise ValueError(f"{path} was not written by save, or is damaged ({type(error).__name__}); write it again.") from None


class _Refused(Exception):
    """What is wrong with a file, after its name."""


def _array(archive, name):
    """Read one array, whose header must tell the truth about its size."""
    data = archive.read(name)
    stream = io.BytesIO(data)
    version = np.lib.format.read_magic(stream)
    shape, _, dtype = (np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0)(stream)
    if dtype.kind not in _DTYPES or math.prod(shape) * dtype.itemsize != len(data) - stream.tell():
        raise _Refused(f"holds {name}, which is no array as save writes it.")
    return np.load(io.BytesIO(data), allow_pickle=False)


def _encode(thing, arrays, where):
    """Return JSON for `thing`; arrays go aside, under the name of their place."""
    if thing is None or isinstance(thing, bool | str):
        return thing
    if isinstance(thing, np.generic) and not isinstance(thing, float):
        return {"scalar": str(thing.dtype), "value": _encode(thing.item(), arrays, where)}
    if isinstance(thing, int):
        return thing
    if isinstance(thing, float):
        return float(thing) if math.isfinite(thing) else {"float": repr(float(thing))}
    if isinstance(thing, Fraction):
        return {"fraction": str(thing)}
    if isinstance(thing, np.dtype):
        return {"dtype": thing.str}
    if isinstance(thing, np.ndarray):
        if thing.dtype.kind == "O":
            if not all(isinstance(name, str) for name in thing.ravel()):
                raise TypeError(f"{where} holds objects that cannot be saved; only numbers and names can.")
            return {"names": thing.tolist()}
        name = f"{len(arrays)}.npy"
        arrays[name] = thing
        return {"array": name, "frozen": not thing.flags.writeable}
    if isinstance(thing, tuple | list):
        items = [_encode(item, arrays, f"{where}[{i}]") for i, item in enumerate(thing)]
        return {"tuple": items} if isinstance(thing, tuple) else items
    if isinstance(thing, dict):
        return {"dict": [[_encode(key, arrays, where), _encode(value, arrays, f"{where}[{key!r}]")] for key, value in thing.items()]}
    kind = type(thing).__name__
    if _CLASSES.get(kind) and type(thing) is _class_of(kind):
        state = thing.__getstate__() if hasattr(thing, "__getstate__") else vars(thing)
        state = {key: value for key, value in (state or {}).items() if key != "_sklearn_version"}
        if "random_state" in state:
            state["random_state"] = None  # a seed voids the promise of whoever finds it
        return {"class": kind, "state": {key: _encode(value, arrays, f"{where}.{key}") for key, value in state.items()}}
    if type(thing).__module__.startswith("pandas") and hasattr(thing, "numpy_dtype"):
        return {"pandas_dtype": str(thing)}
    raise TypeError(f"{where} is a {kind}, which cannot be saved; only what skdpsynth defines, numbers, names and arrays can.")


def _decode(told, array_of):
    """Return what `_encode` was told."""
    if isinstance(told, list):
        return [_decode(item, array_of) for item in told]
    if not isinstance(told, dict):
        return told
    if "class" in told:
        return _made(told["class"], {key: _decode(value, array_of) for key, value in told["state"].items()})
    if "array" in told:
        array = array_of(told["array"])
        array.setflags(write=not told["frozen"])
        return array
    if "tuple" in told:
        return tuple(_decode(told["tuple"], array_of))
    if "dict" in told:
        return {_decode(key, array_of): _decode(value, array_of) for key, value in told["dict"]}
    if "fraction" in told:
        if len(told["fraction"]) > _LONGEST or not re.fullmatch(r"-?\d+(/\d+)?", told["fraction"]):
            raise _Refused("holds a fraction that save does not write.")
        return Fraction(told["fraction"])
    if "float" in told:
        return float(told["float"])
    if "scalar" in told:
        return _dtype(told["scalar"]).type(_decode(told["value"], array_of))
    if "dtype" in told:
        return _dtype(told["dtype"])
    if "names" in told:
        return np.array(_decode(told["names"], array_of), dtype=object)
    if "pandas_dtype" in told:
        import pandas as pd

        return pd.api.types.pandas_dtype(str(told["pandas_dtype"]))
    raise KeyError("unknown")


def _made(kind, state):
    """Return an object of a class of the table, with this state."""
    if kind not in _CLASSES:
        raise _Refused(f"names the class {str(kind)[:80]!r}, which is not one of skdpsynth; it was not written by save.")
    cls = _class_of(kind)
    lacking = set(inspect.signature(cls).parameters) - set(state) if issubclass(cls, BaseEstimator) else ()
    if lacking:
        raise _Refused(f"holds a {kind} without {', '.join(sorted(lacking))}; it was not written by save.")
    thing = cls.__new__(cls)
    if "__setstate__" in vars(cls):
        thing.__setstate__(state)
    else:
        vars(thing).update(state)
    return thing


def _class_of(kind):
    return getattr(importlib.import_module(_CLASSES[kind]), kind)


def _dtype(name):
    dtype = np.dtype(str(name))
    if dtype.kind not in _DTYPES:
        raise TypeError(name)
    return dtype
