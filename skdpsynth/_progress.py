"""Progress of long work: silent unless shown or watched, and then public numbers alone.

Names and totals of tasks are constants of this package or public; the number of rows read is shown only where it is public (see
`fit_bar`). The duration of work is visible to anyone, with or without this file.

Callbacks of scikit-learn (1.9 and later) see the same tasks, never rows or a half-fitted estimator. A callback that asks to stop is not
heard: the budget that was charged would buy less than was planned.
"""

import contextvars
import json
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar

from sklearn.utils.metaestimators import available_if

from skdpsynth._validation import check_type

if TYPE_CHECKING:
    from rich.console import Console

_CALLBACKS = "_skl_callbacks"  # where scikit-learn keeps them
_ROOT = "_parent_callback_ctx"  # where it says whose part an estimator is
_Item = TypeVar("_Item")


_bars: Any = None  # the display of this process
_n_users = 0  # blocks of show_progress that are open
_bars_lock = threading.Lock()
# For the fit in this context: a watcher beside the bars, whose method ``task(name, total)`` returns a context manager with a method `step`,
# and whether the number of rows may be shown.
_watching: contextvars.ContextVar[Any] = contextvars.ContextVar("watching", default=None)
_are_public: contextvars.ContextVar[bool] = contextvars.ContextVar("are_public", default=False)


@contextmanager
def show_progress(console: "Console | None" = None) -> Iterator[None]:
    """Show bars for all long work of this process while the block runs: fits, reading, transport, searches, plans, audits.

    Nothing is shown outside of such a block. A bar vanishes when its work is done. Names and numbers on it are public: under
    "add_or_remove_one" it tells neither how many rows or chunks there are nor how many were read. How *long* private rows take is not
    protected, with or without bars.

    Parameters
    ----------
    console : rich.console.Console, default=None
        Where to draw. None: the standard error of the process, where a terminal or notebook is; elsewhere nothing is drawn. If blocks
        are nested or run in several threads, the first one draws for all.

    Yields
    ------
    None

    Raises
    ------
    ImportError
        If rich is not installed.

    See Also
    --------
    skdpsynth.auditing.audit_epsilon : The longest work that is shown.

    Notes
    -----
    The switch is one for the process, whatever its threads do. Work that joblib gives to other processes is shown by the process that
    waits for it. For callbacks of scikit-learn, whose `ProgressBar` is one, see ``set_callbacks`` of the estimators (scikit-learn 1.9).

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsynth import PrivateMeasureMechanism, show_progress
    >>> with show_progress():
    ...     pmm = PrivateMeasureMechanism(bounds=(0, 1)).fit(np.random.default_rng(0).random((1000, 2)))
    """

    def make_bars() -> Any:
        try:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
        except ImportError:
            raise ImportError("show_progress needs rich; install it: pip install rich.") from None
        if console is not None:
            check_type("console", console, Console, "None or a rich.console.Console")
        columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[done]}"), TimeElapsedColumn()
        return Progress(*columns, console=Console(stderr=True) if console is None else console, transient=True)

    with _show(make_bars):
        yield


@contextmanager
def write_progress(write: Callable[[str], object]) -> Iterator[None]:
    """Write each change of what bars would show as a line of JSON, for a program that draws them itself."""
    with _show(lambda: _Lines(write)):
        yield


class _Lines:
    """Stands for bars."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write, self._lock = write, threading.Lock()
        self._tasks: list[tuple[str, int | None]] = []

    def add_task(self, name: str, total: int | None, done: str) -> int:
        with self._lock:
            self._tasks.append((name, total))
            number = len(self._tasks) - 1
        self.update(number, 0, done)
        return number

    def update(self, number: int, completed: int, done: str) -> None:
        name, total = self._tasks[number]
        self._write(json.dumps({"task": number, "name": name, "done": completed, "total": total}))

    def remove_task(self, number: int) -> None:
        self._write(json.dumps({"task": number, "is_over": True}))

    def start(self) -> None:
        pass

    stop = start


@contextmanager
def _show(make_bars: Callable[[], Any]) -> Iterator[None]:
    global _bars, _n_users
    with _bars_lock:
        if not _n_users:
            bars = make_bars()
            bars.start()
            _bars = bars
        _n_users += 1
    try:
        yield
    finally:
        with _bars_lock:
            _n_users -= 1
            if not _n_users:
                bars, _bars = _bars, None
                bars.stop()


class Task:
    """A piece of work, which bars or a watcher may show."""

    def __init__(
        self, name: str, total: int | None, watcher: "_TaskNotifier | None" = None, *, nests: bool = False, counts: bool = True
    ) -> None:
        self._name, self._total, self._n_done = name, total, 0
        self._bars, self._watcher, self._nests, self._counts = _bars, watcher, nests, counts
        self._stack, self._lock = ExitStack(), threading.Lock()

    def __enter__(self) -> "Task":
        if self._watcher is not None:
            self._watcher = self._stack.enter_context(self._watcher.task(self._name, self._total))
            if self._nests:
                self._stack.enter_context(_watch(self._watcher))
        if self._bars is not None:
            self._number = self._bars.add_task(self._name, total=self._total or None, done=self._done())
        return self

    def step(self) -> None:
        """Count a finished part, from any thread, unless their number is private."""
        if not self._counts:
            return
        with self._lock:
            self._n_done += 1
            if self._watcher is not None and not self._nests:
                self._watcher.step()
            if self._bars is not None:
                self._bars.update(self._number, completed=self._n_done, done=self._done())

    def _done(self) -> str:
        return f"{self._n_done}/{self._total}" if self._total else str(self._n_done or "")

    def __exit__(self, *error: Any) -> None:
        if self._bars is not None:
            self._bars.remove_task(self._number)
        self._stack.__exit__(*error)


_NO_TASK = Task("", None, counts=False)  # stands for all work that is neither shown nor watched


def task(name: str, total: int | None = None, *, nests: bool = False) -> Task:
    """Return a context manager of a piece of work, whose method `step` counts a finished part.

    Its name is public, and so is `total`, its number of parts (0: it has none, None: unknown). If it `nests`, its parts are tasks
    themselves, so that only the bar counts them by `step`.
    """
    watcher = _watching.get()
    return _NO_TASK if _bars is None and watcher is None else Task(name, total, watcher, nests=nests)


def bar(name: str) -> Task:
    """Return a context manager of a piece of work that has a bar, and is no task for callbacks; of unknown, maybe private, length.

    Its parts, the chunks of a table, are counted only where the number of rows is public.
    """
    return _NO_TASK if _bars is None else Task(name, None, counts=_are_public.get())


def track_steps(name: str, parts: Collection[_Item]) -> Iterator[_Item]:
    """Iterate over `parts`, whose number and `name` are public, and show each finished part."""
    with task(name, len(parts)) as progress:
        for part in parts:
            yield part
            progress.step()


@contextmanager
def _watch(watcher: "_TaskNotifier") -> Iterator[None]:
    token = _watching.set(watcher)
    try:
        yield
    finally:
        _watching.reset(token)


@contextmanager
def fit_bar(name: str, are_public: bool) -> Iterator[None]:
    """Show a fit while the block runs; `are_public`: whether the number of rows may be shown."""
    token = _are_public.set(are_public)
    try:
        with _NO_TASK if _bars is None else Task(name, None):
            yield
    finally:
        _are_public.reset(token)


class CallbackMixin:
    """Base of estimators that take callbacks; scikit-learn's own mixin imports rich wherever that is installed."""

    @available_if(lambda estimator: find_spec("sklearn.callback") is not None)
    def set_callbacks(self, *callbacks: Any) -> Any:
        """Set callbacks of scikit-learn (1.9 or later) for later fits, such as ``sklearn.callback.ProgressBar()``; none removes them.

        They see tasks by public names and numbers, never rows or a half-fitted estimator, and cannot stop a fit. Files written by `save` do
        not hold them.

        Returns
        -------
        self : object
        """
        from sklearn.callback import CallbackSupportMixin

        return CallbackSupportMixin.set_callbacks(self, *callbacks)


def run_with_callbacks(estimator: object, run: Callable[[], Any]) -> Any:
    """Run the fit of an estimator while its callbacks, if it has any, watch."""
    if _CALLBACKS not in vars(estimator) and _ROOT not in vars(estimator):
        return run()
    from sklearn.callback import CallbackSupportMixin
    from sklearn.callback import with_callbacks as until_teardown

    def fit_and_notify(estimator: object) -> Any:
        context = CallbackSupportMixin._init_callback_context(estimator, max_subtasks=None)
        context.call_on_fit_task_begin(estimator=estimator)
        with _watch(_TaskNotifier(estimator, context, threading.Lock())):
            result = run()
        context.call_on_fit_task_end(estimator=estimator)
        return result

    return until_teardown(fit_and_notify)(estimator)


def run_with_outer_callbacks(part: object, name: str, run: Callable[[], Any]) -> Any:
    """Run the fit of an inner estimator, which has no callbacks of its own, under those of the outer one."""
    vars(part).pop(_CALLBACKS, None)
    watcher = _watching.get()
    if watcher is None:
        return run()
    with watcher.task(name, 0) as leaf, leaf.context.propagate_callback_context(part):
        return run_with_callbacks(part, run)


class _TaskNotifier:
    """Notifies callbacks of the tasks within a task; the lock is that of the fit, whose threads may have tasks of their own."""

    def __init__(self, estimator: object, context: Any, lock: threading.Lock) -> None:
        self.context, self._estimator, self._lock = context, estimator, lock

    @contextmanager
    def task(self, name: str, total: int | None) -> Iterator["_TaskNotifier"]:
        with self._lock:
            context = self.context.subcontext(task_name=name, max_subtasks=total)
        context.call_on_fit_task_begin(estimator=self._estimator)
        yield _TaskNotifier(self._estimator, context, self._lock)
        context.call_on_fit_task_end(estimator=self._estimator)

    def step(self) -> None:
        with self.task("step", 0):
            pass
