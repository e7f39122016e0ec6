"""Files are read one table ahead, in a thread, as if there were none."""

import threading

import numpy as np
import pytest
from internals import read_ahead


class Tables:
    """A generator that tells how many tables it gave, and whether it was closed."""

    def __init__(self, n, fails_at=None):
        self.given, self.closed, self.threads = 0, False, set()
        self.tables = self.made(n, fails_at)

    def made(self, n, fails_at):
        try:
            for number in range(n):
                if number == fails_at:
                    raise OSError("gone")
                self.given += 1
                self.threads.add(threading.current_thread())
                yield number
        finally:
            self.closed = True


@pytest.mark.parametrize("n", [0, 1, 2, 50])
def test_all_tables_come_in_their_order_from_another_thread(n):
    made = Tables(n)
    assert list(read_ahead(made.tables)) == list(range(n))
    assert made.closed
    assert threading.current_thread() not in made.threads


def test_one_table_is_read_ahead_and_no_more():
    made = Tables(50)
    tables = read_ahead(made.tables)
    assert next(tables) == 0
    tables.close()
    assert made.given == 2
    assert made.closed
    assert not made.threads & set(threading.enumerate())


@pytest.mark.parametrize("fails_at", [0, 3])
def test_what_fails_ahead_is_raised_after_the_tables_before_it(fails_at):
    made, got = Tables(5, fails_at), []
    with pytest.raises(OSError, match="gone"):
        got.extend(read_ahead(made.tables))
    assert got == list(range(fails_at))
    assert made.closed


def test_what_the_caller_does_about_floating_point_errors_holds_in_the_thread():
    def divided():
        yield np.ones(1) / np.zeros(1)

    with np.errstate(all="ignore"):
        (table,) = read_ahead(divided())
    assert np.isinf(table).all()
    with np.errstate(all="raise"), pytest.raises(FloatingPointError):
        list(read_ahead(divided()))
