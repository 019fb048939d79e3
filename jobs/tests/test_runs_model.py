"""Property test: two job workers and random orders of events, checked against a model."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

import testing.jobs  # noqa: F401  (declares the tests' jobs)
from jobs.definitions import registration
from jobs.models import Job, JobCursor, JobWorker, Run
from jobs.runs import declarations, planning, queue, sweeping
from jobs.runs.claiming import Claimed
from jobs.runs.finishing import Failure
from station.clock import database_now
from testing.fleet import HandWorker, later

State = Run.State
NOTE = {"path": "/dev/null"}
JOBS = ("test.note", "test.once", "test.crontab", "test.two_at_once")
FAR = 3600.0
workers = st.integers(0, 1)


class Fleet(RuleBasedStateMachine):
    """`busy`: runs being executed. `frozen`: attempts whose job worker does not know yet that it lost the run."""

    def __init__(self) -> None:
        super().__init__()
        Run.objects.all().delete()
        JobCursor.objects.all().delete()
        JobWorker.objects.all().delete()
        Job.objects.update(is_paused=False)
        declarations.sync(database_now())
        self.workers = [HandWorker(*JOBS), HandWorker(*JOBS)]
        self.busy: dict[int, tuple[int, Claimed]] = {}
        self.frozen: list[tuple[int, Claimed]] = []
        self.executed: dict[int, int] = {}
        self.made: set[int] = set()

    # --- events ---

    @rule(name=st.sampled_from(["test.note", "test.once", "test.two_at_once"]), delay=st.sampled_from([0.0, 60.0]))
    def enqueue(self, name: str, delay: float) -> None:
        self.made.add(queue.enqueue(name, NOTE, run_at=later(delay) if delay else None).pk)

    @rule()
    def plan(self) -> None:
        now = database_now()
        row = Job.objects.get(name="test.crontab")
        cursor = row.cursors.get()
        if cursor.is_active:
            planning.plan(row, cursor.next_at, now + timedelta(hours=2), now + timedelta(hours=2))
        self.made |= set(row.runs.values_list("pk", flat=True))

    @rule(number=workers, room=st.integers(1, 4))
    def claim(self, number: int, room: int) -> None:
        for run in self.workers[number].claim(room, now=later(FAR)):
            assert run.id not in self.busy, "executed twice at once"
            self.busy[run.id] = (number, run)
            self.executed[run.id] = self.executed.get(run.id, 0) + 1

    @precondition(lambda self: self.busy)
    @rule(data=st.data())
    def beat(self, data: Any) -> None:
        number, run = self.busy[data.draw(st.sampled_from(sorted(self.busy)))]
        assert self.workers[number].beat(run).lost == frozenset()

    @precondition(lambda self: self.busy)
    @rule(data=st.data(), is_good=st.booleans())
    def finish(self, data: Any, is_good: bool) -> None:
        number, run = self.busy.pop(data.draw(st.sampled_from(sorted(self.busy))))
        outcome = None if is_good else Failure(Run.Fault.HANDLER_ERROR, "no")
        assert self.workers[number].finish(run, outcome), "the end of a lease that was ours was refused"

    @rule(number=workers)
    def kill(self, number: int) -> None:
        """The job worker dies; a new one replaces it."""
        JobWorker.objects.filter(pk=self.workers[number].row.pk).update(pid=2**22 + 1)
        sweeping.bury(database_now())
        self.busy = {pk: held for pk, held in self.busy.items() if held[0] != number}
        self.workers[number] = HandWorker(*JOBS)

    @precondition(lambda self: self.busy)
    @rule(data=st.data())
    def steal(self, data: Any) -> None:
        """The job worker freezes until the lease has expired, so that another may claim the run."""
        pk = data.draw(st.sampled_from(sorted(self.busy)))
        self.frozen.append(self.busy.pop(pk))
        Run.objects.filter(pk=pk).update(leased_until_at=later(-1))
        sweeping.rescue_stale(database_now())

    @precondition(lambda self: self.frozen)
    @rule()
    def thaw(self) -> None:
        """The job worker returns: its heartbeat is refused and its result is ignored."""
        number, run = self.frozen.pop()
        before = Run.objects.filter(pk=run.id).values("state", "result", "attempt", "token").first()
        assert self.workers[number].beat(run).lost == {run.token}
        assert self.workers[number].finish(run) is False
        assert Run.objects.filter(pk=run.id).values("state", "result", "attempt", "token").first() == before

    @rule(name=st.sampled_from(JOBS))
    def pause_or_resume(self, name: str) -> None:
        row = Job.objects.get(name=name)
        act = registration.resume if row.is_paused else registration.pause
        act(row, now=database_now(), by="anna")
        self.made &= set(Run.objects.values_list("pk", flat=True))  # a pause removes planned runs

    @rule()
    def trigger(self) -> None:
        try:
            self.made.add(queue.run_by_hand("test.crontab", by="anna").pk)
        except queue.AlreadyRunning:
            assert Run.objects.filter(job__name="test.crontab", state__in=["queued", "running"]).exists()

    # --- invariants ---

    @invariant()
    def running_runs_are_exactly_those_being_executed(self) -> None:
        running = set(Run.objects.filter(state=State.RUNNING).values_list("pk", flat=True))
        assert running == set(self.busy)

    @invariant()
    def limits_hold(self) -> None:
        assert Run.objects.filter(state=State.RUNNING, job__name="test.two_at_once").count() <= 2
        assert Run.objects.filter(state=State.RUNNING, job__name="test.crontab").count() <= 1

    @invariant()
    def runs_that_are_not_reentrant_are_executed_once(self) -> None:
        once = set(Run.objects.filter(job__name="test.once").values_list("pk", flat=True))
        assert all(self.executed.get(pk, 0) <= 1 for pk in once)

    def teardown(self) -> None:
        """No run is lost: with time and a job worker, every run ends."""
        for row in Job.objects.filter(is_paused=True):
            registration.resume(row, now=database_now(), by="anna")
        for number, run in self.busy.values():
            assert self.workers[number].finish(run)
        for _ in range(200):
            runs = self.workers[0].claim(50, now=later(2 * FAR))
            if not runs:
                break
            for run in runs:
                assert self.workers[0].finish(run)
        assert self.made == set(Run.objects.values_list("pk", flat=True))
        assert not Run.objects.live().exists()


@pytest.mark.django_db
@pytest.mark.database
def test_no_order_of_events_loses_doubles_or_repeats_a_run() -> None:
    """J-07, J-08, J-12, J-14, J-18, J-19, J-20: plan, claim, beat, finish, fail, kill, steal, thaw, pause, trigger."""
    run_state_machine_as_test(
        Fleet,
        settings=settings(
            max_examples=25, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
