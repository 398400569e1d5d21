"""Work in several threads: order, errors, warnings, and what ends early."""

from __future__ import annotations

import time
from threading import Event

import pytest

from noisyteacher.core.errors import NoisyTeacherWarning, warn
from noisyteacher.core.threads import end_if_stopped, in_threads


def test_results_are_in_order() -> None:
    def slow_first(number: int) -> int:
        time.sleep(0.1 * (number == 0))
        end_if_stopped()
        return number * number

    assert in_threads(slow_first, range(6), 3) == [0, 1, 4, 9, 16, 25]
    assert in_threads(slow_first, [], 3) == []
    end_if_stopped()  # elsewhere it does nothing


def test_an_error_ends_the_other_threads() -> None:
    both, ended = Event(), Event()

    def work(number: int) -> None:
        if number == 0:
            both.wait(10)
            raise ValueError("the first one fails")
        both.set()
        try:
            for _ in range(1_000):
                time.sleep(0.01)
                end_if_stopped()
        except BaseException:
            ended.set()
            raise

    with pytest.raises(ValueError, match="the first one fails"):
        in_threads(work, [0, 1], 2)
    assert ended.is_set()


def test_a_warning_of_a_thread_names_the_line_that_called_the_package() -> None:
    with pytest.warns(NoisyTeacherWarning) as caught:
        in_threads(warn, ["look at this"], 1)
    assert caught[0].filename == __file__
