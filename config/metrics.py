"""Figures for a monitoring system, in Prometheus's text format. No library is needed for that."""

from collections.abc import Iterable

from jobs.statistics import read_figures
from scheduling.leader.election import read_status
from scheduling.models import Booking
from station.models import Alert

Sample = tuple[dict[str, str], float]


def render_metrics() -> str:
    figures = read_figures()
    jobs = figures.jobs
    active = Booking.objects.active().count()
    alerts = Alert.objects.filter(state=Alert.State.OPEN).count()
    leader = read_status()
    workers = sum(worker.is_alive for worker in figures.workers)
    groups: list[tuple[str, str, Iterable[Sample]]] = [
        ("airlock_leader_present", "1 if a scheduler leads", [({}, float(leader.is_locked))]),
        ("airlock_standby_schedulers", "schedulers waiting to lead", [({}, float(leader.standbys))]),
        (
            "airlock_turn_seconds_worst",
            "the longest turn of the leader's loop in the last minute",
            [({}, leader.worst_turn_seconds)],
        ),
        (
            "airlock_bookings_active",
            "bookings between their start and the end of their media worker",
            [({}, float(active))],
        ),
        ("airlock_alerts_open", "alerts that nobody has acknowledged", [({}, float(alerts))]),
        ("airlock_workers_alive", "job workers with a recent heartbeat", [({}, float(workers))]),
        ("airlock_runs_waiting", "runs in the queue", [({"job": job.name}, job.queued) for job in jobs]),
        ("airlock_runs_running", "runs that are running", [({"job": job.name}, job.running) for job in jobs]),
        (
            "airlock_runs_failed_day",
            "runs that failed in the last day",
            [({"job": job.name}, job.failed) for job in jobs],
        ),
        (
            "airlock_runs_crashed_day",
            "runs whose job worker died in the last day",
            [({"job": job.name}, job.worker_crashed) for job in jobs],
        ),
        ("airlock_job_paused", "1 if the job is paused", [({"job": job.name}, float(job.is_paused)) for job in jobs]),
    ]
    return "".join(_group(name, words, samples) for name, words, samples in groups)


def _group(name: str, words: str, samples: Iterable[Sample]) -> str:
    head = f"# HELP {name} {words}\n# TYPE {name} gauge\n"
    return head + "".join(f"{name}{_labels(labels)} {value:g}\n" for labels, value in samples)


def _labels(labels: dict[str, str]) -> str:
    return "{" + ",".join(f'{name}="{value}"' for name, value in labels.items()) + "}" if labels else ""
