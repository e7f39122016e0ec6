"""The program `skdpsynth` with all its commands, and how it ends: an exit code, and one sentence without a traceback."""

import errno
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import click

from skdpsynth._version import __version__
from skdpsynth.cli._budget import audit, budget, plan
from skdpsynth.cli._form import ui
from skdpsynth.cli._model import card, evaluate, impute, interval, sample
from skdpsynth.cli._options import in_words_of_commands
from skdpsynth.cli._synthesize import schema_group, synthesize

_BAD_INPUT, _INTERRUPTED, _BROKEN_PIPE = 2, 130, 141
_AGAIN = 1.0  # seconds
_TERMINATION_SIGNALS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]  # SIGHUP: the terminal closes
_EXPECTED_ERRORS = (ValueError, TypeError, OSError, ImportError, MemoryError)  # types of errors whose text is written for users


class Program(click.Group):
    """A group of commands whose errors are one sentence without a traceback."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run and exit with a code; without `standalone_mode` return and raise, as click does."""
        run = partial(super().main, args, prog_name, complete_var, standalone_mode=False, **extra)
        return sys.exit(run_command(run)) if standalone_mode else run()


@click.group(cls=Program, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="skdpsynth", message="%(prog)s %(version)s")
@click.pass_context
def program(context: click.Context) -> None:
    """Differentially private synthetic tables.

    From a CSV or Parquet file: write a schema (schema init), fill in what is public, check it (schema check), and synthesize. INPUT is a
    file, a folder or a pattern; "-" is standard input or output. Exit codes: 0 fine, 1 a check found something, 2 wrong usage or input,
    130 interrupted.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


for command in (schema_group, synthesize, sample, impute, interval, budget, plan, evaluate, audit, card, ui):
    program.add_command(command)


class Terminated(BaseException):
    """A signal ends the program: files half done, and a copy of standard input, are removed on the way out."""


def run_command(command: Callable[[], Any]) -> int:
    """Run a command, print one sentence for an error, and return the exit code."""

    def show_warning(message: Warning | str, *where: Any, **more: Any) -> None:
        click.echo(f"Warning: {in_words_of_commands(_line(str(message)))}", err=True)  # without its line of code

    with _handle_termination(), warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning, append=True)  # repeated warnings, too
        warnings.showwarning = show_warning
        try:
            code = command()
            sys.stdout.flush()
            return code if isinstance(code, int) else 0
        except SystemExit as error:  # raised by click for a broken pipe; its output is lost
            return _BROKEN_PIPE if error.code == 1 else int(error.code or 0)
        except BaseException as error:
            return _exit_code(error)


def _exit_code(error: BaseException) -> int:
    """Return the exit code of an error, and print one sentence about it."""
    cause: BaseException | None = error
    while cause is not None:  # click, and imports of some packages, turn a signal into an error of their own
        if isinstance(cause, Terminated | KeyboardInterrupt):
            is_terminated = isinstance(cause, Terminated)
            click.echo(f"{'Terminated' if is_terminated else 'Interrupted'}; no half-written file is left.", err=True)
            return 128 + int(cause.args[0]) if is_terminated else _INTERRUPTED
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, OSError) and error.errno == errno.EPIPE:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes the rest into nothing
        return _BROKEN_PIPE
    if os.environ.get("SKDPSYNTH_TRACEBACK"):
        traceback.print_exception(error)
    click.echo(f"Error: {_sentence(error)}", err=True)
    return _BAD_INPUT


def _sentence(error: BaseException) -> str:
    """Return an error in one line; for an unexpected one only its type, because its text may quote a cell."""
    if isinstance(error, click.UsageError):
        told = _line(error.format_message()).removesuffix(".")
        where = "" if error.ctx is None else f"{' See' if told.endswith('?') else '; see'} {error.ctx.command_path} --help"
        return f"{told}{where}."
    if isinstance(error, click.ClickException):
        return _line(error.format_message())
    if isinstance(error, MemoryError) and not str(error):
        return "There is not enough memory for this; give fewer columns, or a machine with more."
    if isinstance(error, _EXPECTED_ERRORS) and str(error):
        return in_words_of_commands(_line(str(error)))
    return f"Something unforeseen went wrong ({type(error).__name__}); set SKDPSYNTH_TRACEBACK=1 to see where, and report it."


def _line(text: str) -> str:
    return " ".join(text.split())


@contextmanager
def _handle_termination() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the program as Ctrl-C does, so that temporary files are removed.

    Imports and finalizers may swallow the exception of a signal handler, so the signal is sent again until it gets through, except while
    files are being removed.
    """
    again: list[threading.Timer] = []
    is_over = False

    def end(number: int, frame: object) -> None:
        if is_over:
            return
        timer = threading.Timer(_AGAIN, _send, [number])
        timer.daemon = True
        with suppress(RuntimeError):  # no room for another thread
            timer.start()
            again.append(timer)
        error = sys.exc_info()[1]
        while error is not None and not isinstance(error, Terminated):  # it, or an error raised on the way out
            error = error.__context__
        if error is None:
            raise Terminated(number)

    if threading.current_thread() is not threading.main_thread():  # the caller handles signals
        yield
        return
    before = {number: signal.getsignal(number) for number in _TERMINATION_SIGNALS}
    changed = {number: handler for number, handler in before.items() if handler not in (None, signal.SIG_IGN)}  # nohup ignores one
    for number in changed:
        signal.signal(number, end)
    try:
        yield
    finally:
        is_over = True
        for timer in again:
            timer.cancel()
            timer.join()  # or its signal would come when no handler is set
        for number, handler in changed.items():
            signal.signal(number, handler)


def _send(number: int) -> None:
    """Send a signal to the main thread, which may be waiting."""
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(threading.main_thread().ident or 0, number)
    else:
        signal.raise_signal(number)
