"""Measures how long a booking and a start by hand take, compared with plain ffmpeg."""

import statistics
import sys
import time
from datetime import timedelta
from pathlib import Path

from bench.metric import Metric, bench_project


def measure_booking() -> list[Metric]:
    """One booking, constraints included, on a recorder with 20,000 others."""
    from django.utils import timezone

    from scheduling.bookings.making import book
    from scheduling.models import Booking, Recorder

    recorder = Recorder.objects.create(name="Bench", project=bench_project(), source_type="test")
    now = timezone.now()
    minute = timedelta(minutes=1)
    starts = [now + minute * number for number in range(20_000)]
    Booking.objects.bulk_create(
        [
            Booking(
                recorder=recorder,
                state="planned",
                starts_at=at,
                ends_at=at + minute,
                opens_at=at,
                closes_at=at + minute,
            )
            for at in starts
        ],
        batch_size=2000,
    )
    times = []
    for number in range(200):
        at = now + minute * (30_000 + number)
        began = time.perf_counter()
        book(recorder, at, at + minute, now=now)
        times.append((time.perf_counter() - began) * 1000)
    method = "book() of a free minute on a recorder with 20,000 live bookings, events included"
    made = Metric("booking_made_p50_ms", round(statistics.median(times), 2), "ms", "under 8", len(times), method)
    return [made, measure_planning()]


def measure_planning(runs: int = 3) -> Metric:
    """A rule with a window every five minutes, planned for 14 days: 4,032 bookings with padding."""
    from django.utils import timezone

    from scheduling.models import Recorder, Schedule
    from scheduling.rules.planning import plan_ahead

    times, now = [], timezone.now()
    for number in range(runs):
        recorder = Recorder.objects.create(
            name=f"Dense {number}", project=bench_project(), source_type="test", pad_after_seconds=60
        )
        schedule = Schedule.objects.create(
            name="Dense",
            recorder=recorder,
            kind="cron",
            zone="Europe/Berlin",
            first_on=now.date() - timedelta(days=1),
            cron="*/5 * * * *",
            length=timedelta(minutes=5),
        )
        began = time.perf_counter()
        while not plan_ahead(schedule, now).is_complete:
            pass
        took = time.perf_counter() - began
        assert schedule.bookings.count() >= 4000
        times.append(took * 4000 / schedule.bookings.count())
    method = "all passes of a rule with 4,032 windows that touch, scaled to 4,000; median of the runs"
    return Metric("plan_4000_windows_s", round(statistics.median(times), 2), "s", "under 2", runs, method)


def measure_start() -> list[Metric]:
    """From Start to the first byte, compared with plain ffmpeg."""
    from django.conf import settings

    from nodes.machines import health
    from nodes.models import Node
    from scheduling.models import Recorder
    from scheduling.recording.controls import start_now, stop_now

    settings.RECORDINGS_DIR.mkdir(parents=True, exist_ok=True)
    node = Node.objects.create(name="bench", address="process", media_dir=str(settings.RECORDINGS_DIR))
    health.check(node)
    recorder = Recorder.objects.create(
        name="Pattern", project=bench_project(), source_type="test", picture_size="320x180", video_bitrate="300k"
    )
    ours, plain = [], []
    for number in range(5):
        began = time.perf_counter()
        outcome = start_now(recorder, by="bench")
        ours.append(time.perf_counter() - began)
        if not outcome.is_good:
            sys.exit(f"the recorder did not start: {outcome.text}")
        stop_now(recorder, by="bench")
        plain.append(plain_ffmpeg(settings.RECORDINGS_DIR / f"plain-{number}.ts"))
    ratio = statistics.median(ours) / statistics.median(plain)
    method = "Start (intent, process, first frame and byte confirmed) against plain ffmpeg to its first byte, medians"
    return [
        Metric("start_confirmed_p50_s", round(statistics.median(ours), 3), "s", "under 3", len(ours), method),
        Metric("start_ratio_to_plain_ffmpeg", round(ratio, 2), "ratio", "under 4", len(ours), method),
    ]


def plain_ffmpeg(path: Path) -> float:
    import subprocess

    from testing.media import environment, ffmpeg

    command = [ffmpeg(), "-loglevel", "error", "-re", "-f", "lavfi", "-i", "testsrc2=size=320x180:rate=25"]
    command += ["-re", "-f", "lavfi", "-i", "sine", "-c:v", "libx264", "-preset", "veryfast", "-b:v", "300k"]
    command += ["-c:a", "aac", "-flush_packets", "1", "-f", "mpegts", str(path)]
    began = time.perf_counter()
    process = subprocess.Popen(command, env=environment(), stdin=subprocess.DEVNULL)
    while not path.exists() or not path.stat().st_size:
        time.sleep(0.005)
    took = time.perf_counter() - began
    process.kill()
    process.wait()
    return took
