"""Exit codes, and errors as one sentence, without a traceback that could quote a cell."""

import errno
import os
import re
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import click

from skdpsynth.cli._wording import in_words_of_commands

CHECK_FAILED, BAD_INPUT, INTERRUPTED, BROKEN_PIPE = 1, 2, 130, 141
_AGAIN = 1.0  # seconds
_TERMINATION_SIGNALS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]  # SIGHUP: the terminal closes
_INTERRUPTED = "Interrupted; no half-written file is left."
_TERMINATED = "Terminated; no half-written file is left."
_EXPECTED_ERRORS = (ValueError, TypeError, OSError, ImportError, MemoryError)  # types of errors whose text is written for users


class Terminated(BaseException):
    """A signal ends the program: files half done, and a copy of standard input, are removed on the way out."""


def run_command(command: Callable[[], Any]) -> int:
    """Run a command, print one sentence for an error, and return the exit code."""
    with _handle_termination(), _one_line_warnings():
        try:
            code = command()
            sys.stdout.flush()
            return code if isinstance(code, int) else 0
        except click.Abort as error:
            cause = error.__cause__
            return _report_error(cause) if isinstance(cause, EOFError) else _print_and_return(_INTERRUPTED, INTERRUPTED)
        except KeyboardInterrupt:
            return _print_and_return(_INTERRUPTED, INTERRUPTED)
        except Terminated as error:
            return _print_and_return(_TERMINATED, 128 + int(error.args[0]))
        except SystemExit as error:  # raised by click for a broken pipe; its output is lost
            return BROKEN_PIPE if error.code == 1 else int(error.code or 0)
        except Exception as error:
            if signalled := _signal_exit_code(error):
                return signalled
            return _silence_stdout() if isinstance(error, OSError) and error.errno == errno.EPIPE else _report_error(error)


def _signal_exit_code(error: BaseException | None) -> int | None:
    """Return the exit code of a signal during an import, which some packages turn into an ImportError, or None."""
    while error is not None:
        if isinstance(error, Terminated):
            return _print_and_return(_TERMINATED, 128 + int(error.args[0]))
        if isinstance(error, KeyboardInterrupt):
            return _print_and_return(_INTERRUPTED, INTERRUPTED)
        error = error.__cause__ or error.__context__
    return None


def _report_error(error: Exception) -> int:
    if os.environ.get("SKDPSYNTH_TRACEBACK"):
        traceback.print_exception(error)
    return _print_and_return(f"Error: {_sentence(error)}", BAD_INPUT)


def _print_and_return(text: str, code: int) -> int:
    click.echo(text, err=True)
    return code


def _sentence(error: Exception) -> str:
    """Return an error in one line; for an unexpected one only its type, because its text may quote a cell."""
    if isinstance(error, click.UsageError):
        where = f"; see {error.ctx.command_path} --help" if error.ctx is not None else ""
        told = re.sub(r"\.?$|\?(?=\)?$)", "", _line(error.format_message()), count=1)  # click asks "Did you mean ...?"
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


def _silence_stdout() -> int:
    """Let Python flush the rest into nothing."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return BROKEN_PIPE


@contextmanager
def _handle_termination() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the program as Ctrl-C does, so that temporary files are removed.

    Imports and finalizers may swallow the exception of a signal handler, so the signal is sent again until it gets through, except while
    files are being removed.
    """
    again: list[threading.Timer] = []
    over = False

    def end(number: int, frame: Any) -> None:
        if over:
            return
        timer = threading.Timer(_AGAIN, _send, [number])
        timer.daemon = True
        with suppress(RuntimeError):  # no room for another thread
            timer.start()
            again.append(timer)
        if not _is_ending(sys.exc_info()[1]):
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
        over = True
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


def _is_ending(error: BaseException | None) -> bool:
    """Whether the exception of a signal, or one raised while it is handled, is on its way out."""
    while error is not None and not isinstance(error, Terminated):
        error = error.__context__
    return error is not None


@contextmanager
def _one_line_warnings() -> Iterator[None]:
    """Print warnings without their line of code."""

    def show(message: Warning | str, *where: Any, **more: Any) -> None:
        click.echo(f"Warning: {in_words_of_commands(_line(str(message)))}", err=True)

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning, append=True)  # repeated warnings, too
        warnings.showwarning = show
        yield
