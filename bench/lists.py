"""Measures the list of bookings and its search box with 100,000 bookings, from request to page."""

import statistics
import time
from datetime import timedelta

from bench.metric import Metric, bench_project

STORED, RECORDERS = 100_000, 100
WORDS = ("evening", "report 4711", "cam 7 evening", "2026 take99")


def fill() -> None:
    from django.db import connection
    from django.utils import timezone

    from scheduling.models import Booking, Recorder

    project, now, hour = bench_project(), timezone.now(), timedelta(hours=1)
    recorders = Recorder.objects.bulk_create(
        Recorder(name=f"Cam {number}", project=project, source_type="test") for number in range(RECORDERS)
    )
    for begin in range(0, STORED, 5000):
        rows = []
        for number in range(begin, begin + 5000):
            at = now - number // RECORDERS * hour
            rows.append(
                Booking(
                    recorder=recorders[number % RECORDERS],
                    title=f"{'Evening' if number % 10 == 0 else 'Daily'} report {number}",
                    state="completed" if number >= RECORDERS else "recording",
                    starts_at=at,
                    ends_at=at + hour,
                    opens_at=at,
                    closes_at=at + hour,
                    requested_by="anna",
                    folder=f"news/{at:%Y-%m-%d}",
                    file_name=f"take{number}.ts",
                    parts=[],
                )
            )
        Booking.objects.bulk_create(rows)
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")


def measure_lists() -> list[Metric]:
    from django.contrib.auth.models import User
    from django.core.management import call_command
    from django.test import Client
    from django.urls import reverse

    call_command("collectstatic", verbosity=0, interactive=False)
    fill()
    client = Client()
    client.force_login(User.objects.create_superuser("bench"))

    def took(name: str, asked: dict[str, str]) -> float:
        times = []
        for _ in range(6):
            began = time.perf_counter()
            page = client.get(reverse(name), asked, headers={"host": "localhost"})
            times.append((time.perf_counter() - began) * 1000)
            assert page.status_code == 200
        return statistics.median(times[1:])

    bookings = "admin:scheduling_booking_changelist"
    searches = {words: took(bookings, {"q": words}) for words in WORDS}
    shown = took(bookings, {"when": "all"})
    recorders = client.get(reverse("admin:scheduling_recorder_changelist"), headers={"host": "localhost"})
    details = ", ".join(f"“{words}” {value:.0f} ms" for words, value in searches.items())
    method = f"{STORED} bookings, the whole page from the request to its last byte, median of 5: "
    size = len(recorders.content) / 1000
    return [
        Metric("search_100k_ms", round(max(searches.values()), 1), "ms", "under 150", 5, method + details),
        Metric("list_100k_ms", round(shown, 1), "ms", "under 150", 5, method + "all bookings, first page"),
        Metric("recorder_list_kb", round(size, 1), "kB", "under 300", 1, f"the page with {RECORDERS} recorders"),
    ]
