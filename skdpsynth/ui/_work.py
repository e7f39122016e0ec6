"""Commands that run for the form, each a process of its own, and the private folder that they work in."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

_PREFIX, _LOCK = "skdpsynth-ui-", "lock"
_PATIENCE = 10.0  # seconds that a command has to remove its files


@contextmanager
def private_folder() -> Iterator[Path]:
    """Yield a folder for the owner of the process alone, and remove it, with those that killed programs left."""
    for left in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError), (left / _LOCK).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails while its program lives
            shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as folder, (Path(folder) / _LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield Path(folder)


class Command:
    """A command of `skdpsynth` in a process of its own, which can be ended at any time.

    Attributes
    ----------
    title : str
    page : str
        The page to go to when it has ended.
    code : int or None
        None while it runs.
    sentences : list of str
        Its error, if it ended with one, else its notes and warnings.
    """

    def __init__(self, title: str, page: str, arguments: Sequence[str], folder: Path, done: Callable[["Command"], None]) -> None:
        self.title, self.page, self.was_cancelled = title, page, False
        self.code: int | None = None
        self.sentences = list[str]()
        self._bars = dict[int, dict[str, object]]()
        self._begun, self._done = time.monotonic(), done
        self._out = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - no pipe, which a long result would fill
        # Found as this package was, and nothing that lies in the folder.
        path = os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = {**os.environ, "PYTHONPATH": path, "SKDPSYNTH_PROGRESS": "json", "TMPDIR": str(folder), "MPLBACKEND": "Agg"}
        environment.pop("SKDPSYNTH_TRACEBACK", None)  # its text may quote a cell
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "skdpsynth", *arguments],
            cwd=folder,
            env=environment,
            start_new_session=True,  # Ctrl-C is for the form, which ends it then
            stdin=subprocess.DEVNULL,
            stdout=self._out,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
        )
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        for line in self._process.stderr or ():
            if line.startswith('{"task"'):
                bar = json.loads(line)
                self._bars[bar["task"]] = bar
                if bar.get("is_over"):
                    del self._bars[bar["task"]]
            elif line.strip():
                self.sentences.append(line.strip().removeprefix("Error: ").removeprefix("Warning: "))
        code = self._process.wait()
        try:
            with self._out:
                self._out.seek(0)
                self.text = self._out.read().decode()
            self._done(self)
        except Exception as error:  # its text may quote a cell
            self.sentences.append(f"Something unforeseen went wrong ({type(error).__name__}).")
        finally:
            self.code = code

    @property
    def return_code(self) -> int | None:
        """That of the process, which may have ended just before the results were taken in."""
        return self._process.returncode

    @property
    def result(self) -> dict[str, Any]:
        return json.loads(self.text)

    @property
    def error(self) -> str:
        return self.sentences[-1] if self.sentences else "The work ended without a word."

    def state(self) -> dict[str, object]:
        """Return what a page shows of it, all of it public: see `skdpsynth._progress`."""
        bars = [bar for bar in self._bars.copy().values() if bar["total"]]
        shown = bars[-1] if bars else None
        names = [str(bar["name"]) for bar in self._bars.copy().values()]
        share = shown and {"done": shown["done"], "total": shown["total"]}
        return {"is_over": self.code is not None, "doing": names[-1] if names else "", "seconds": int(time.monotonic() - self._begun)} | (
            share or {}
        )

    def wait(self) -> None:
        self._thread.join()

    def cancel(self) -> None:
        """End it as SIGTERM does: no half-written file is left, and what was charged stays charged."""
        self.was_cancelled = self.code is None
        with suppress(ProcessLookupError):
            self._process.terminate()

    def end(self) -> None:
        self.cancel()
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._thread.join(_PATIENCE)
