"""Attack files: edits of valid files with valid check sums, damage and bombs, each loaded and then used in a process with limits.

These counts must be 0: errors raised by other people's code or by a line of ours that is no `raise`, uses of more than 20 processor
seconds, and samples that are out of their bounds or not finite. The edited files are those of `savable.py`, one of everything that can be
saved.

Run `python benchmarks/hostile_files.py [n_files] [--seed 0] [--only name] [--list]`: 10,000 files take about half an hour on one core.
"""

import argparse
import copy
import io
import json
import linecache
import multiprocessing
import os
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
from savable import things

import skdpsynth
from skdpsynth.persistence import from_bytes, to_bytes

SECONDS = 20
MEMORY = 4 << 30  # bytes of addresses of a child
NAMES = ["sample", "fit", "transform", "_model", "measure_", "x", "__class__", "__dict__", "epsilon", "n_features_in_", "save", "_lock"]
CLASSES = ["Box", "PrivatePCA", "PrivacyLoss", "Schema", "Continuous", "BinaryPartition", "Link", "Sensitivity", "MixedTypeEncoder", "Text"]
FLOATS = [0.0, -1.0, np.nan, np.inf, -np.inf, 1e308, 5e-324, 2.0, 0.5]
INTS = [0, 1, -1, 2**31, -(2**40), 255, 7]
HUGE = [-1, 0, 1, 2, 7, 63, 64, 2**31, 2**53, 2**63 - 1, -(2**63), 2**64, 10**30, 10**400, 1e308, 1e-320, -0.5, 0.5, 1e9]
ODD = [
    None, True, False, "", "x", "1", "nan", "\ud800", "x" * 100_000, [], [1, 2], [[], []], ["a", "b"], {}, {"tuple": []}, {"dict": []},
    {"tuple": [1, 2]}, {"dict": [["a", 1]]}, {"float": "nan"}, {"float": "inf"}, {"float": "-inf"}, {"fraction": "1/3"},
    {"fraction": "-1/3"}, {"fraction": "1" * 3000}, {"dtype": "<f8"}, {"scalar": "int8", "value": 3}, {"scalar": "float32", "value": 0.5},
    {"names": ["a", "b"]}, {"names": []}, {"pandas_dtype": "Int8"}, {"unknown": 1},
]  # fmt: skip


class TookTooLong(BaseException):
    """So that nobody catches it."""


def nodes(tree, path=()):
    """Yield the paths of all nodes of JSON."""
    yield path
    for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ():
        yield from nodes(value, (*path, key))


def at(tree, path):
    for key in path:
        tree = tree[key]
    return tree


def put(tree, path, value):
    if path:
        at(tree, path[:-1])[path[-1]] = value


def chosen(tree, draw):
    """Choose a node: of all alike, or by a walk from the root, so that what is near it is met as often as long ledgers are."""
    if draw.random() < 0.4:
        return draw.choice(list(nodes(tree)))
    path, node = (), tree
    while isinstance(node, dict | list) and node and (not path or draw.random() < 0.85):
        key = draw.choice(list(node) if isinstance(node, dict) else range(len(node)))
        path, node = (*path, key), node[key]
    return path


def edited_number(value, draw):
    half = value / 2 if abs(value) < 1e300 else value // 2  # of a whole number that an edit before made too large for floats
    return draw.choice([-value, value + 1, value - 1, value * 2, half, str(value), [value], *HUGE])


def edit(tree, arrays, draw):
    """Edit a tree once, in place; return where and how."""
    if not tree:
        return (), "nothing is left"
    path = chosen(tree, draw)
    while not path:
        path = chosen(tree, draw)
    node, how = at(tree, path), draw.choice(["odd", "number", "swap", "drop", "add", "class", "array", "array", "like"])
    if how == "number" and type(node) in (int, float):
        put(tree, path, edited_number(node, draw))
    elif how == "swap":
        other = chosen(tree, draw)
        if other and other[: len(path)] != path and path[: len(other)] != other:
            first, second = copy.deepcopy(node), copy.deepcopy(at(tree, other))
            put(tree, path, second)
            put(tree, other, first)
    elif how == "like":  # with another of its kind
        others = [p for p in nodes(tree) if p and type(at(tree, p)) is type(node)]
        put(tree, path, copy.deepcopy(at(tree, draw.choice(others))))
    elif how == "drop":
        del at(tree, path[:-1])[path[-1]]
    elif how == "add":
        holder = at(tree, path[:-1]) if not isinstance(node, dict | list) else node
        if isinstance(holder, dict):
            holder[draw.choice(NAMES)] = copy.deepcopy(draw.choice(ODD))
        else:
            holder.insert(draw.randrange(len(holder) + 1), copy.deepcopy(draw.choice(holder or ODD)))
    elif how == "class" and isinstance(node, dict) and "class" in node:
        node["class"] = draw.choice(CLASSES)
    elif how == "array" and arrays:
        name = draw.choice(list(arrays))
        arrays[name] = edited_array(arrays[name], draw)
        return (name,), how
    else:
        put(tree, path, copy.deepcopy(draw.choice(ODD + HUGE)))
    return path, how


def edited_array(array, draw):
    """Return an array of another shape, type or content."""
    array, rng = np.array(array), np.random.default_rng(draw.getrandbits(32))
    values = INTS if array.dtype.kind in "iub" else FLOATS
    kind = draw.choice(["one", "one", "one", "all", "type", "shape", "shorter", "longer", "shuffled", "negated", "scaled"])
    with np.errstate(all="ignore"):
        if kind == "one" and array.size:
            array.flat[draw.randrange(array.size)] = np.array(draw.choice(values)).astype(array.dtype)
        elif kind == "all":
            array[...] = np.array(draw.choice(values)).astype(array.dtype)
        elif kind == "type":
            array = array.astype(draw.choice(["<f8", "<f4", "<i8", "<i4", "<u1", "?", "<f2", ">f8", "<u8"]))
        elif kind == "shape":
            array = draw.choice(
                [array.ravel(), array[None], array[..., None], array.T, array.reshape(-1)[:1].reshape(()) if array.size else array]
            )
        elif kind == "shorter":
            array = array[: draw.randrange(len(array) + 1)] if array.ndim else array[None]
        elif kind == "longer" and array.ndim:
            array = np.concatenate([array, array[:1]])
        elif kind == "shuffled" and array.ndim:
            array = rng.permutation(array)
        elif kind == "negated":
            array = (-array.astype(float)).astype(array.dtype)
        else:
            array = (array.astype(float) * draw.choice([0.5, 2, 1e-3, 1e6])).astype(array.dtype)
    return array


def written(tree, arrays, level=1):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=level) as archive:
        archive.writestr("object.json", tree if isinstance(tree, str) else json.dumps(tree))
        for name, array in arrays.items():
            data = io.BytesIO()
            np.save(data, array, allow_pickle=False)
            archive.writestr(name, data.getvalue())
    return file.getvalue()


def damaged(data, draw):
    """Damage the bytes of a file."""
    data, kind = bytearray(data), draw.choice(["flip", "cut", "splice", "zero"])
    start = draw.randrange(len(data))
    if kind == "flip":
        data[start] ^= 1 << draw.randrange(8)
    elif kind == "cut":
        del data[start:]
    elif kind == "splice":
        other = draw.randrange(len(data))
        data[start:start] = data[other : other + draw.randrange(1, 500)]
    else:
        data[start : start + 100] = bytes(min(100, len(data) - start))
    return bytes(data), ("bytes", kind)


def bomb(draw):
    """Make a small file that claims or unpacks to much."""
    kind = draw.choice(["lists", "nested", "zeros", "digits", "header", "text", "names", "objects"])
    size = draw.choice([10**4, 10**5, 10**6, 5 * 10**6])
    head = '{"format": 2, "object": {"class": "PrivatePCA", "state": {"bounds": '
    body = {
        "lists": "[" + "[]," * size + "0]", "nested": "[" * size + "]" * size, "digits": "9" * size, "text": '"' + "x" * size + '"',
        "names": '{"names": [' + '"a",' * size + '"b"]}', "objects": "[" + '{"class":"Text","state":{}},' * (size // 9) + "0]",
    }.get(kind, '{"array": "0.npy", "frozen": true}')  # fmt: skip
    if kind == "header":
        data = io.BytesIO()
        np.lib.format.write_array_header_1_0(
            data, {"descr": "<f8", "fortran_order": False, "shape": draw.choice([(10**14,), (-1,), (2**40, 0)])}
        )
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("object.json", head + body + "}}}")
            archive.writestr("0.npy", data.getvalue())
        return file.getvalue(), ("bomb", kind)
    arrays = {"0.npy": np.zeros(size * 10)} if kind == "zeros" else {}
    return written(head + body + "}}}", arrays, level=draw.choice([1, 9])), ("bomb", kind)


class Base:
    """A right file, and what is asked of what it holds."""

    def __init__(self, name, thing):
        self.name, self.data = name, to_bytes(thing)
        with zipfile.ZipFile(io.BytesIO(self.data)) as archive:
            self.tree = json.loads(archive.read("object.json"))
            self.arrays = {name: np.load(io.BytesIO(archive.read(name))) for name in archive.namelist() if name.endswith(".npy")}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.rows = self._rows(from_bytes(self.data))

    def _rows(self, thing):
        if hasattr(thing, "sample") and hasattr(thing, "n_features_in_"):
            return thing.sample(40, random_state=0)
        if hasattr(thing, "n_features_in_") and self.name == "encoder":
            return thing.inverse_transform(np.random.default_rng(0).random((40, len(thing.get_feature_names_out()))))
        return (
            pd.DataFrame({"a": np.arange(40) % 9, "b": np.linspace(0, 1, 40)})
            if "gaussian" in self.name
            else np.random.default_rng(0).random((40, 2))
        )

    def hostile(self, draw):
        """Return a hostile file, and what was done."""
        if draw.random() < 0.08:
            return damaged(self.data, draw)
        tree, arrays = copy.deepcopy(self.tree), dict(self.arrays)
        done = [edit(tree, arrays, draw) for _ in range(draw.choice([1, 1, 1, 1, 2, 3]))]
        try:
            return written(tree, arrays), done
        except UnicodeEncodeError:
            return written(json.dumps(tree).encode("ascii", "replace").decode(), arrays), done


# Use


def uses(thing, rows, with_card):
    """Yield names of uses of an object, and what does them."""
    yield "repr", lambda: repr(thing)
    yield "save", lambda: to_bytes(thing)
    for name in ("sample", "partial_fit", "transform", "score", "impute", "inverse_transform", "fit_transform", "evaluate"):
        if hasattr(type(thing), name) or hasattr(thing, name):
            yield name, lambda name=name: use_table(thing, name, rows)
    if hasattr(thing, "accountant_"):
        yield "accountant", lambda: use_accountant(thing.accountant_)
        yield "fit", lambda: use_fit(thing, rows)
        if hasattr(thing, "sample") and with_card:
            yield "card", lambda: skdpsynth.report.card(thing)
        yield "sample again", lambda: thing.sample(7) if hasattr(thing, "sample") else None
    if hasattr(thing, "ledger"):
        yield "accountant", lambda: use_accountant(thing)
    if hasattr(thing, "update_cells"):
        yield "counter", lambda: use_counter(thing)
    if hasattr(thing, "to_json"):
        yield "schema", lambda: (thing.to_json(), thing.to_yaml(), thing == type(thing).from_json(thing.to_json()))
    if type(thing).__name__ == "NearestMeasure":
        yield "measure", lambda: thing.gap


def use_fit(thing, rows):
    if not hasattr(thing, "best_params_") and getattr(thing, "strategy", "") not in ("marginals", "scores"):
        thing.fit(rows)


def use_table(thing, name, rows):
    if name == "sample":
        check_sample(thing, thing.sample(50, random_state=0))
    elif name == "inverse_transform":
        getattr(thing, name)(thing.transform(rows))
    else:
        getattr(thing, name)(rows)
        if name == "partial_fit":
            check_sample(thing, thing.sample(50, random_state=0))


def use_accountant(accountant):
    _ = accountant.spent, accountant.remaining, accountant.closed, accountant.spent_delta
    _ = repr(accountant), accountant.ledger, accountant.to_frame(), accountant._repr_html_() if hasattr(accountant, "_repr_html_") else None
    accountant.to_dp_events()
    accountant.risk(0.1)
    if not accountant.closed:
        accountant.spend(1e-9, name="more")


def use_counter(counter):
    _ = counter.n_steps
    counter.resume() if counter.name != "inhomogeneous" and "Inhomogeneous" not in type(counter).__name__ else None
    _ = counter.value
    counter.update_cells([0] * 3)
    _ = counter.value
    counter.update([1] * counter.n_counters)
    _ = counter.value
    copy.deepcopy(counter)


class Nonsense(Exception):
    """What nobody says is wrong."""


def check_sample(model, rows):
    """Raise `Nonsense` where cells are not finite though none may be missing, or out of the bounds that the model says."""
    if isinstance(rows, dict):
        for name, table in rows.items():
            check_cells(model.schemas_[name], as_frame(table))
        return
    schema, frame = getattr(model, "schema_", None), as_frame(rows)
    if schema is not None:
        check_cells(schema, frame)
        return
    values = frame.to_numpy(dtype=float)
    box = getattr(getattr(model, "partition_", None), "box", None)
    if not np.isfinite(values).all():
        raise Nonsense("a sample that is not finite")
    if box is not None and ((values < np.float32(box.low) - 1e-6) | (values > np.float32(box.high) + 1e-6)).any():
        raise Nonsense("a sample out of bounds")


def as_frame(rows):
    return rows.to_pandas() if isinstance(rows, pl.DataFrame) else pd.DataFrame(rows)


def check_cells(schema, frame):
    for name, kind in zip(
        frame.columns, [kind for kind in schema.values() if type(kind).__name__ not in ("Identifier", "Text")], strict=False
    ):
        if name in schema and type(schema[name]).__name__ == "Continuous":
            kind, cells = schema[name], pd.to_numeric(frame[name]).astype(float)
            if not kind.nullable and cells.isna().any():
                raise Nonsense("a missing cell where none may be")
            if ((cells < kind.low - 1e-4) | (cells > kind.high + 1e-4) | np.isinf(cells)).any():
                raise Nonsense("a sample out of bounds")


def is_foreign(error):
    """Whether an error was raised by somebody else's code, or by a line of ours that is no `raise`."""
    frames = traceback.extract_tb(error.__traceback__)
    last = next((f for f in reversed(frames) if f.filename != __file__), None)
    if isinstance(error, Nonsense) or last is None:
        return False
    ours = f"{os.sep}skdpsynth{os.sep}" in last.filename or f"{os.sep}sklearn{os.sep}" in last.filename
    return not (ours and linecache.getline(last.filename, last.lineno).strip().startswith("raise"))


def told(error):
    """Return where an error came from: the last line of ours, and of all."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if f"{os.sep}skdpsynth{os.sep}" in f.filename]
    place = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else "?"
    return f"{type(error).__name__} at {place} ({Path(frames[-1].filename).name}): {str(error)[:80]!r}"


def attack(base, data, path):
    """Load a file and use it; return what came of it: a word, and where it went wrong."""
    path.write_bytes(data)
    try:
        thing = skdpsynth.load(path)
    except MemoryError as error:
        return "foreign at load" if is_foreign(error) else "refused for memory", told(error)
    except Exception as error:
        return "foreign at load" if is_foreign(error) else "refused", f"{told(error)} {error.__context__!r}"[:200]
    if type(thing).__name__ not in ("int",) and base.tree["object"]["class"] != type(thing).__name__:
        return "another class", type(thing).__name__
    said, rows = "used", base.rows
    for name, use in uses(thing, rows, len(data) % 8 == 0):
        try:
            use()
        except Nonsense as error:
            return "nonsense", f"{name}: {error}"
        except Exception as error:
            if is_foreign(error):
                return "foreign in use", f"{name}: {told(error)}"
            said = "refused in use"
    return said, ""


def peak_of_process():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))


def child(numbers, options, answers):
    """Attack with these numbers, one after the other."""
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))

    def too_long(*_):
        raise TookTooLong

    signal.signal(signal.SIGPROF, too_long)
    bases = [Base(name, make()) for name, make in things() if options.only in name]
    import skdpsynth.report  # noqa: F401  # so that its memory is not a file's

    with tempfile.TemporaryDirectory() as folder:
        for number in numbers:
            answers.send(("begun", number))
            answers.send(one(bases, number, options.seed, Path(folder) / "model.zip"))


def one(bases, number, seed, path):
    draw = random.Random(f"{seed} {number}")
    base = draw.choice(bases)
    data, done = bomb(draw) if draw.random() < 0.02 else base.hostile(draw)
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the peak is counted anew
    before, start = peak_of_process(), time.perf_counter()
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        word, where = attack(base, data, path)
    except TookTooLong as error:
        word, where = "hang", told(error)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return ("done", number, word, where, base.name, str(done)[:300], peak_of_process() - before, len(data), time.perf_counter() - start)


def run(options, out=sys.stdout):
    """Attack with all numbers; a child that dies is replaced. Return the answers."""
    results, left = [], list(range(options.start, options.start + options.n_files))
    context = multiprocessing.get_context("fork")
    while left:
        here, there = context.Pipe(duplex=False)
        process = context.Process(target=child, args=(left, options, there))
        process.start()
        there.close()
        begun = None
        try:
            while left:
                if not here.poll(90 if begun is None else 10 * SECONDS):
                    process.kill()
                    raise EOFError
                answer = here.recv()
                if answer[0] == "begun":
                    begun = answer[1]
                else:
                    results.append(answer[1:])
                    left.remove(begun)
                    if options.list and answer[2] in ("foreign at load", "foreign in use", "nonsense", "hang"):
                        print(*answer[1:6], sep=" | ", file=out, flush=True)
        except EOFError:
            if begun is None:
                raise RuntimeError("a child could not begin") from None
            results.append((begun, "crash", "", "", "", 0, 1, 0.0))
            if options.list:
                print(begun, "crash", process.exitcode, sep=" | ", file=out, flush=True)
            left = [number for number in left if number > begun] if begun in left else left
        process.join()
    return results


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("n_files", nargs="?", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--only", default="")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    results = run(options)
    counts = Counter(word for _, word, *_ in results)
    print(f"\n{len(results)} files")
    for word in ("refused", "refused for memory", "used", "refused in use", "another class"):
        print(f"{word:24}{counts[word]:8}")
    for word in ("foreign at load", "foreign in use", "nonsense", "hang", "crash"):
        print(f"{word:24}{counts[word]:8}   must be 0")
    peaks = sorted(((peak, size) for *_, peak, size, _ in results), reverse=True)
    print(f"peak memory over that before: {peaks[0][0] / 1e6:.0f} MB; more than 500 MB and 20 times the file: "
          f"{sum(peak > max(500e6, 20 * size) for peak, size in peaks)}")  # fmt: skip
    print(f"longest: {max(seconds for *_, seconds in results):.1f} s")
    kinds = Counter(where for _, word, where, *_ in results if word in ("foreign at load", "foreign in use", "nonsense", "hang"))
    for where, count in kinds.most_common(80 if options.list else 0):
        print(f"{count:6} {where}")


if __name__ == "__main__":
    main()
