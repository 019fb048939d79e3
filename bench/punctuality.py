"""Measures how late starts are, with two schedulers and bookings that start nothing: single, in bursts, in crashes."""

import contextlib
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from bench.metric import Metric, bench_project

ROOT = Path(__file__).resolve().parent.parent


class Replicas:
    """Scheduler processes on the benchmark's database, and what they started."""

    def __init__(self, count: int = 2) -> None:
        # In memory if possible: a file represents a container, and the disk is not what is measured.
        base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self._folder = tempfile.TemporaryDirectory(prefix="airlock-bench-", dir=base)
        self.folder = Path(self._folder.name)
        self.processes = [self._start() for _ in range(count)]

    def _start(self) -> "subprocess.Popen[bytes]":
        # A link needs no time to come up, so it is started when the window opens and not ahead of it.
        environment = {**os.environ, "LAUNCH_AHEAD_SECONDS": "0"}
        return subprocess.Popen([sys.executable, "-m", "bench.replica", str(self.folder)], cwd=ROOT, env=environment)

    def leader_pid(self) -> int:
        from scheduling.models import Leadership

        holder = Leadership.objects.values_list("holder", flat=True).first() or ""
        return int(holder.rpartition(" ")[2] or 0)

    def wait_for_leader(self, other_than: int = 0) -> int:
        deadline = time.monotonic() + 30
        pids = {process.pid for process in self.processes if process.poll() is None}
        while time.monotonic() < deadline:
            pid = self.leader_pid()
            if pid in pids and pid != other_than:
                return pid
            time.sleep(0.02)
        sys.exit("no replica leads")

    def wait_for_standby(self) -> None:
        """Until another replica waits for the lock: a process that still loads its modules cannot take over."""
        from django.db import connection

        from scheduling.leader.election import LOCK

        waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND classid = %s"
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            with connection.cursor() as cursor:
                cursor.execute(waiting, [LOCK[0]])
                if (cursor.fetchone() or [0])[0]:
                    return
            time.sleep(0.02)
        sys.exit("no replica waits to lead")

    def phases(self, pid: int) -> dict[str, int]:
        """When this replica first reached each phase, in ns."""
        lines = (self.folder / f"phases-{pid}").read_text().splitlines()
        return {phase: int(at) for phase, at in (line.split() for line in lines)}

    def started(self, pks: list[int], seconds: float) -> dict[int, tuple[int, int]]:
        """pk -> (when in ns, by which pid), once all have started or the time is up."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if os.path.lexists(self.folder / f"b{pks[-1]}") and len(self._found(pks)) == len(pks):
                break
            time.sleep(0.1)
        return self._found(pks)

    def _found(self, pks: list[int]) -> dict[int, tuple[int, int]]:
        found = {}
        for pk in pks:
            with contextlib.suppress(FileNotFoundError):
                began, pid = str((self.folder / f"b{pk}").readlink()).split("-")
                found[pk] = (int(began), int(pid))
        return found

    def count(self, what: str) -> int:
        """How often a start was `adopted` (found by name) or `doubled` (two went on at once)."""
        return sum(len(path.read_text().split()) for path in self.folder.glob(f"{what}-*"))

    def stop(self) -> None:
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
                process.terminate()
        for process in self.processes:
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._folder.cleanup()


@contextlib.contextmanager
def replicas(count: int = 2) -> Iterator[Replicas]:
    fleet = Replicas(count)
    try:
        fleet.wait_for_leader()
        yield fleet
    finally:
        fleet.stop()
        clear()


def make_recorders(count: int) -> list[int]:
    from scheduling.models import Recorder

    project = bench_project()
    have = list(Recorder.objects.filter(name__startswith="r-").order_by("pk").values_list("pk", flat=True))
    rows = [Recorder(name=f"r-{n}", project=project, source_type="test") for n in range(len(have), count)]
    return [*have, *(row.pk for row in Recorder.objects.bulk_create(rows, batch_size=2000))][:count]


def make_bookings(starts: list[datetime], *, wake: bool = True) -> list[int]:
    """One booking of a minute for each start, each on its own recorder."""
    from scheduling.models import Booking
    from station.database.notify import wake_scheduler

    minute = timedelta(minutes=1)
    recorders = make_recorders(len(starts))
    rows = [
        Booking(
            recorder_id=recorder,
            state="planned",
            starts_at=at,
            ends_at=at + minute,
            opens_at=at,
            closes_at=at + minute,
            deadline_at=at + minute,
        )
        for recorder, at in zip(recorders, starts, strict=True)
    ]
    made = Booking.objects.bulk_create(rows, batch_size=2000)
    if wake:
        wake_scheduler()
    return [row.pk for row in made]


def clear() -> None:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE scheduling_booking CASCADE")


def in_seconds(seconds: float) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=seconds)


def lateness(found: dict[int, tuple[int, int]], pks: list[int], starts: list[datetime]) -> list[float]:
    """Milliseconds between the planned instant and the moment the start began."""
    return [found[pk][0] / 1e6 - at.timestamp() * 1000 for pk, at in zip(pks, starts, strict=True)]


def measure_single(count: int = 300) -> list[Metric]:
    """Bookings one at a time, about 50 ms apart, with everything else idle."""
    with replicas() as fleet:
        first = in_seconds(13)
        starts = [first + timedelta(seconds=0.05 * n + 0.0137 * (n % 3)) for n in range(count)]
        pks = make_bookings(starts)
        found = fleet.started(pks, 13 + 0.05 * count + 20)
        assert len(found) == count, f"{count - len(found)} were not started"
        late = sorted(lateness(found, pks, starts))
    method = f"{count} single bookings, two replicas: from the planned instant to the begin of the start call"
    p50, p99 = statistics.median(late), late[int(len(late) * 0.99)]
    return [
        Metric("booking_lateness_p50_ms", round(p50, 2), "ms", "under 2.5", count, method),
        Metric("booking_lateness_p99_ms", round(p99, 2), "ms", "under 15", count, method),
    ]


def measure_burst(count: int, name: str, target: str, lead: float, runs: int) -> Metric:
    """All bookings at one instant: how long until the last start begins."""
    worst = []
    for _ in range(runs):
        with replicas() as fleet:
            make_recorders(count)
            at = in_seconds(lead)
            pks = make_bookings([at] * count)
            found = fleet.started(pks, lead + 60)
            assert len(found) == count, f"{count - len(found)} of {count} were not started"
            assert fleet.count("adopted") == fleet.count("doubled") == 0
            worst.append(max(lateness(found, pks, [at] * count)))
    method = (
        f"{count} bookings due at one instant, two replicas, each started exactly once; the last one, median of runs"
    )
    return Metric(name, round(statistics.median(worst), 1), "ms", target, runs, method)


def measure_crash_burst(count: int = 1000, runs: int = 3) -> list[Metric]:
    """Kill the leader in the middle of a burst; count what is lost, started twice or late."""
    lost = doubled = adopted = 0
    last: list[float] = []
    for _ in range(runs):
        with replicas() as fleet:
            make_recorders(count)
            leader = fleet.wait_for_leader()
            time.sleep(1.5)
            at = in_seconds(12)
            pks = make_bookings([at] * count)
            middle = fleet.folder / f"b{pks[count // 2]}"
            deadline = time.monotonic() + 30
            while not os.path.lexists(middle) and time.monotonic() < deadline:
                time.sleep(0.0005)
            killed = time.time_ns()
            os.kill(leader, signal.SIGKILL)
            found = fleet.started(pks, 20)
            time.sleep(0.5)
            lost += count - len(found)
            doubled += fleet.count("doubled")
            adopted += fleet.count("adopted")
            after = [(began - killed) / 1e6 for began, pid in found.values() if pid != leader]
            assert after, "the leader was killed after the last start"
            last.append(max(after))
    method = (
        f"{count} due at one instant, the leader killed when half had begun; doubled: two starts of one booking "
        f"that both found no link with its name; {adopted} calls in {runs} runs adopted a start of the killed leader"
    )
    return [
        Metric("crash_burst_lost", lost, "bookings", "0", runs, method),
        Metric("crash_burst_doubled", doubled, "bookings", "0", runs, method),
        Metric("crash_burst_last_ms", round(max(last), 1), "ms", "under 2000", runs, method),
    ]


def measure_punctuality() -> list[Metric]:
    metrics = measure_single()
    metrics.append(measure_burst(1000, "burst_1000_last_ms", "under 200", 12, 3))
    metrics.append(measure_burst(10_000, "burst_10000_last_ms", "under 2000", 20, 1))
    return [*metrics, *measure_crash_burst()]
