"""Background work, by a clock that moves only while somebody waits."""

import time
from dataclasses import dataclass, field
from threading import Event
from typing import Any

import pytest
import structlog

from vitrina.domain.errors import ConfigError, VitrinaError
from vitrina.runner.service import PARTING_SECONDS, Duty, Service, Session, pause_after


class Clock(Event):
    """An event that nobody waits for: time passes at once. It is set when the time is up."""

    def __init__(self, until: float) -> None:
        super().__init__()
        self.now, self.until, self.waits = 0.0, until, list[float]()

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.waits.append(timeout)
        self.now += timeout
        if self.now >= self.until:
            self.set()
        return self.is_set()


@dataclass
class Work:
    """Notes when it is done; fails as often as told."""

    clock: Clock
    failures: int = 0
    times: list[float] = field(default_factory=list)

    def __call__(self) -> None:
        self.times.append(self.clock.now)
        if len(self.times) <= self.failures:
            raise ConfigError("out of order")


@dataclass
class Line:
    """A session, as far as a service knows one."""

    closed: bool = False
    broken: bool = False

    def close(self) -> None:
        self.closed = True


def run(clock: Clock, *duties: Duty, **options: Any) -> None:
    Service("test", clock, duties, now=lambda: clock.now, **options).run()


def lines() -> tuple[Session, list[Line]]:
    opened: list[Line] = []

    def open_one() -> Any:
        opened.append(Line())
        return opened[-1]

    return Session(open_one), opened


def test_each_duty_has_a_clock_of_its_own() -> None:
    clock = Clock(10)
    often, seldom = Work(clock), Work(clock)
    run(clock, Duty(often, "", every=2), Duty(seldom, "", every=5))
    assert (often.times, seldom.times) == ([0, 2, 4, 6, 8], [0, 5])


def test_a_duty_rests_as_long_as_it_should_after_it_was_done_however_long_that_took() -> None:
    clock = Clock(10)
    times = []

    def work() -> None:
        times.append(clock.now)
        clock.now += 1

    run(clock, Duty(work, "", every=2))
    assert times == [0, 3, 6, 9]


def test_what_fails_is_tried_again_after_pauses_that_grow_up_to_its_own() -> None:
    clock = Clock(8)
    work = Work(clock, failures=6)
    with structlog.testing.capture_logs() as said:
        run(clock, Duty(work, "cannot work, trying again", every=2))
    assert work.times == [0, 0.25, 0.75, 1.75, 3.75, 5.75, 7.75]
    line = {"event": "cannot work, trying again", "error": "out of order", "log_level": "warning"}
    assert said == [line] * 6


def test_after_a_success_the_first_pause_is_short_again() -> None:
    clock, times = Clock(6), list[float]()

    def work() -> None:
        times.append(clock.now)
        if clock.now < 1 or clock.now > 3:
            raise VitrinaError("lost")

    run(clock, Duty(work, "", every=2))
    assert times == [0, 0.25, 0.75, 1.75, 3.75, 4, 4.5, 5.5]


def test_one_that_fails_keeps_no_other_waiting() -> None:
    clock = Clock(4)
    broken, well = Work(clock, failures=100), Work(clock)
    run(clock, Duty(broken, "", every=100), Duty(well, "", every=1))
    assert well.times == [0, 1, 2, 3]


def test_who_waits_for_its_work_itself_makes_no_busy_loop_when_it_fails() -> None:
    clock = Clock(60)
    work = Work(clock, failures=100)
    run(clock, Duty(work, "", longest=2))
    assert len(work.times) < 40
    assert max(clock.waits) == 2


def test_pauses_are_bounded_however_many_failures_there_are() -> None:
    assert [pause_after(failures, 15) for failures in (1, 2, 3, 7, 10_000)] == [0.25, 0.5, 1, 15, 15]
    assert pause_after(1, 0.1) == 0.1


def test_what_is_not_forgiven_ends_it_and_leaves_nothing_open() -> None:
    session, opened = lines()

    def work() -> None:
        session.get()
        raise TypeError("unforeseen")

    with pytest.raises(TypeError):
        run(Clock(10), Duty(work, ""), sessions=[session], forgives=VitrinaError)
    assert [line.closed for line in opened] == [True]


def test_a_session_is_kept_from_turn_to_turn_and_opened_anew_after_a_failure() -> None:
    clock, (session, opened) = Clock(9), lines()

    def work() -> None:
        session.get()
        if clock.now == 4:
            raise VitrinaError("this server only reads now")

    run(clock, Duty(work, "", every=2), sessions=[session])
    assert [line.closed for line in opened] == [True, True]


def test_a_session_that_broke_is_replaced() -> None:
    session, opened = lines()
    session.get()
    opened[0].broken = True
    assert session.get() is not opened[0]  # type: ignore[comparison-overlap]


def test_who_may_hang_holds_no_session_between_two_turns() -> None:
    clock, (session, opened) = Clock(6), lines()
    run(clock, Duty(session.get, "", every=2), sessions=[session], may_hang=True)
    assert len(opened) == 3


def test_whoever_holds_something_is_waited_for() -> None:
    done, busy = Event(), Event()

    def work() -> None:
        busy.set()
        stopping.wait()
        time.sleep(0.05)
        done.set()

    stopping, ended = Event(), Event()
    service = Service("test", stopping, [Duty(work, "")], end=ended.set)
    service.start()
    assert busy.wait(60)
    service.stop()
    assert done.is_set()
    assert ended.is_set()


def test_whoever_may_hang_is_left_behind() -> None:
    forever, busy = Event(), Event()

    def work() -> None:
        busy.set()
        forever.wait()

    service = Service("test", Event(), [Duty(work, "")], may_hang=True)
    service.start()
    assert busy.wait(60)
    began = time.monotonic()
    service.stop()
    assert time.monotonic() - began >= PARTING_SECONDS - 0.1
    forever.set()
