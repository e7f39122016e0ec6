"""Values that are computed once."""

import os
import threading
import time
from pathlib import Path

import pytest
from internals import cached_property

import skdpsynth


class Slow:
    def __init__(self):
        self.begun, self.n_computed = threading.Event(), 0

    @cached_property
    def value(self):
        self.n_computed += 1
        self.begun.set()
        time.sleep(0.5)
        return 7


def test_a_value_is_computed_once_and_kept():
    slow = Slow()
    assert (slow.value, slow.value, slow.n_computed) == (7, 7, 1)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_child_that_is_forked_while_a_thread_computes_does_not_wait_for_it():
    slow = Slow()
    thread = threading.Thread(target=lambda: slow.value)
    thread.start()
    slow.begun.wait()
    child = os.fork()
    if not child:
        os._exit(Slow().value)
    until = time.monotonic() + 20
    while not (done := os.waitpid(child, os.WNOHANG))[0] and time.monotonic() < until:
        time.sleep(0.01)
    if not done[0]:
        os.kill(child, 9)
        os.waitpid(child, 0)
    thread.join()
    assert done[0]
    assert os.waitstatus_to_exitcode(done[1]) == 7


def test_no_room_takes_the_property_of_functools():
    for path in Path(skdpsynth.__file__).parent.rglob("*.py"):
        assert "from functools import cached_property" not in path.read_text(encoding="utf-8"), path
