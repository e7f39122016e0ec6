"""Callbacks of scikit-learn 1.9 and later.

They see tasks by public names and numbers (releases, steps, candidates), never rows or a half-fitted estimator. A callback that asks to
stop is not heard: the budget that was charged would buy less than was planned.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from sklearn.utils.metaestimators import available_if

from skdpsynth._progress import current_watcher, use_watcher

_CALLBACKS = "_skl_callbacks"  # where scikit-learn keeps them
_ROOT = "_parent_callback_ctx"  # where it says whose part an estimator is


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


def run_with_callbacks(estimator: Any, run: Callable[[], Any]) -> Any:
    """Run the fit of an estimator while its callbacks, if it has any, watch."""
    if _CALLBACKS not in vars(estimator) and _ROOT not in vars(estimator):
        return run()
    from sklearn.callback import CallbackSupportMixin
    from sklearn.callback import with_callbacks as until_teardown

    def watched(estimator: Any) -> Any:
        context = CallbackSupportMixin._init_callback_context(estimator, max_subtasks=None)
        context.call_on_fit_task_begin(estimator=estimator)
        with use_watcher(_TaskNotifier(estimator, context, threading.Lock())):
            result = run()
        context.call_on_fit_task_end(estimator=estimator)
        return result

    return until_teardown(watched)(estimator)


def run_with_outer_callbacks(part: Any, name: str, run: Callable[[], Any]) -> Any:
    """Run the fit of an inner estimator, which has no callbacks of its own, under those of the outer one."""
    vars(part).pop(_CALLBACKS, None)
    watcher = current_watcher()
    if watcher is None:
        return run()
    with watcher.task(name, 0) as leaf, leaf.context.propagate_callback_context(part):
        return run_with_callbacks(part, run)


class _TaskNotifier:
    """Notifies callbacks of the tasks within a task; the lock is that of the fit, whose threads may have tasks of their own."""

    def __init__(self, estimator: Any, context: Any, lock: Any) -> None:
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
