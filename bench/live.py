"""Measures what a scheduler costs in a live system: with nodes and nothing to do, and for each channel on air."""

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.idle import cpu_ms, sessions_and_helpers
from bench.metric import Metric, bench_project, prepared_folder
from testing.plant_rows import running_plant
from testing.processes import database_url, start_manage

NODES, RECORDERS, CHANNELS = 10, 20, 40
# A window holds twelve checks of each node and one measurement of its disk.
SETTLE_SECONDS, WINDOW_SECONDS, WINDOWS = 20, 60, 3
CHECK_SECONDS = 5  # the default of NODE_CHECK_SECONDS
CALLS = 200
WRITES_PER_SECOND = 10
WRITER = """
import psycopg, sys, time
with psycopg.connect(sys.argv[1], autocommit=True) as own:
    own.execute("CREATE TABLE IF NOT EXISTS other (n int)")
    while True:
        own.execute("INSERT INTO other VALUES (1)")
        time.sleep(1 / float(sys.argv[2]))
"""


@contextlib.contextmanager
def _other_database_writes() -> Iterator[None]:
    """A neighbour on the same server: its commits change the snapshot that an idle leader compares."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE other")
    url = database_url().replace(f"/{connection.settings_dict['NAME']}?", "/other?")
    process = subprocess.Popen([sys.executable, "-c", WRITER, url, str(WRITES_PER_SECOND)])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _median_cost(folder: Path) -> tuple[float, float]:
    """(scheduler, its sessions in the server), processor time in ms per second, median of the windows."""
    scheduler = start_manage("runscheduler", log=folder / "scheduler.log", DATA_DIR=str(prepared_folder()))
    try:
        time.sleep(SETTLE_SECONDS)
        sessions = sessions_and_helpers()[0]
        spent = []
        for _ in range(WINDOWS):
            before = cpu_ms({scheduler.pid}), cpu_ms(sessions)
            time.sleep(WINDOW_SECONDS)
            after = cpu_ms({scheduler.pid}), cpu_ms(sessions)
            spent.append(tuple((b - a) / WINDOW_SECONDS for a, b in zip(before, after, strict=True)))
        spent.sort()
        own, server = spent[WINDOWS // 2]
        return own, server
    finally:
        scheduler.terminate()
        scheduler.wait(30)


def _ms_per_call(folder: Path) -> float:
    """What a check needs at least: one call on a kept connection that lists our containers. Processor time."""
    from nodes.runtimes.engine_http import EngineConnection

    engine = EngineConnection(f"unix://{folder}/0.sock", folder)
    engine.get("/containers/json", all="1")
    spent = 0.0
    for _ in range(CALLS):
        time.sleep(0.01)  # as in the scheduler, the call does not find everything in the processor's cache
        began = time.process_time()
        engine.get("/containers/json", all="1")
        spent += time.process_time() - began
    engine.close()
    return spent / CALLS * 1000


def _idle_metrics(method: str, idle: float, server: float, call: float) -> list[Metric]:
    checks = NODES / CHECK_SECONDS * call
    return [
        Metric(
            "idle_live_ms_per_s",
            round(idle, 2),
            "ms/s",
            f"under {1 + checks:.2f} (1, plus the calls to {NODES} nodes)",
            WINDOWS,
            f"{method}, disks measured every minute; another database writes {WRITES_PER_SECOND} rows a second; the "
            f"calls of the checks need {checks:.2f} of it; all sessions of the server, the writer's included: "
            f"{server:.2f} ms/s",
        ),
        Metric(
            "node_check_call_ms",
            round(call, 3),
            "ms",
            "",
            CALLS,
            "processor time of one call on a kept connection that lists our containers",
        ),
    ]


def measure_live() -> list[Metric]:
    from nodes.models import Node
    from scheduling.models import Recorder

    project: Any = bench_project()
    for number in range(RECORDERS):
        Recorder.objects.create(name=f"Cam {number}", project=project, source_type="test")
    folder = prepared_folder()
    with _other_database_writes(), running_plant(folder / "idle", project, good=NODES):
        idle, server = _median_cost(folder)
        call = _ms_per_call(folder / "idle")
    Node.objects.all().delete()
    with running_plant(folder / "on_air", project, good=NODES, channels=CHANNELS):
        busy, _ = _median_cost(folder)
    method = f"one scheduler, {NODES} engines (stand-ins) checked every 5 s, {RECORDERS} idle recorders, jobs on"
    return [
        *_idle_metrics(method, idle, server, call),
        Metric(
            "scheduler_percent_per_channel",
            round((busy - idle) / 10 / CHANNELS, 3),
            "%",
            "under 1",
            WINDOWS,
            f"{method}, {CHANNELS} channels on air (stand-ins), polled every second; {busy:.1f} ms/s in all",
        ),
    ]
