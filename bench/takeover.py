"""Measures how soon a standby starts bookings after the leader was killed or frozen, and what it does until then."""

import os
import signal
import statistics
import time
from dataclasses import dataclass
from datetime import timedelta

from bench.metric import Metric
from bench.punctuality import in_seconds, make_bookings, replicas

# In this order; the time of each is since the one before. `bench.replica` notes them.
PHASES = {
    "lock": "lock gained",
    "epoch": "epoch written",
    "step": "turn begun",
    "claimed": "due ones claimed",
    "inherited": "armed ones inherited",
    "due": "dispatcher woken",
    "start": "first start",
}


@dataclass(frozen=True)
class Round:
    """One takeover: milliseconds from the signal to the standby's first start, and to each phase."""

    gap: float
    phases: dict[str, float]

    def in_words(self) -> str:
        words, before = [], 0.0
        for at, name in sorted((at, PHASES[phase]) for phase, at in self.phases.items()):
            words.append(f"{name} +{at - before:.1f}")
            before = at
        return f"{self.gap:.1f} ms: {', '.join(words)}"


def take_over_once(sent: signal.Signals) -> Round:
    """Bookings every 10 ms; the leader is killed or frozen."""
    span = 3.0 if sent == signal.SIGKILL else 20.0
    with replicas() as fleet:
        leader = fleet.wait_for_leader()
        fleet.wait_for_standby()
        first = in_seconds(3)
        starts = [first + timedelta(seconds=0.01 * n) for n in range(int(span / 0.01))]
        pks = make_bookings(starts)
        time.sleep(max(0.0, first.timestamp() + 1.0 - time.time()))
        at = time.time_ns()
        os.kill(leader, sent)
        found = fleet.started(pks, span + 30)
        assert len(found) == len(pks), f"{len(pks) - len(found)} were not started"
        standby = next(process.pid for process in fleet.processes if process.pid != leader)
        after = [began for began, pid in found.values() if pid == standby]
        phases = fleet.phases(standby)
    return Round((min(after) - at) / 1e6, {name: (phases[name] - at) / 1e6 for name in PHASES if name in phases})


def measure_takeover() -> list[Metric]:
    rounds = []
    for number in range(20):
        rounds.append(take_over_once(signal.SIGKILL))
        print(f"takeover {number + 1}: {rounds[-1].in_words()}", flush=True)
    worst = max(rounds, key=lambda each: each.gap)
    method = "bookings every 10 ms, kill -9 of the leader while a standby waits: until the standby's first start"
    frozen = take_over_once(signal.SIGSTOP)
    return [
        Metric("takeover_kill_p50_ms", round(statistics.median(each.gap for each in rounds), 1), "ms", "", 20, method),
        Metric(
            "takeover_kill_ms",
            round(worst.gap, 1),
            "ms",
            "under 200",
            20,
            f"{method}; the worst round: {worst.in_words()}",
        ),
        Metric(
            "takeover_freeze_ms", round(frozen.gap, 1), "ms", "under 15000", 1, method.replace("kill -9", "SIGSTOP")
        ),
    ]
