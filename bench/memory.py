"""Measures the memory of one idle job worker and one idle scheduler."""

import time

import psutil

from bench.jobs import fleet
from bench.metric import Metric

SETTLE_SECONDS = 8
MEGABYTE = 1024 * 1024


def measure_memory() -> list[Metric]:
    with fleet(workers=1, schedulers=1, concurrency=2) as processes:
        time.sleep(SETTLE_SECONDS)
        found = [psutil.Process(process.pid).memory_full_info() for process in processes.processes]
    names = ("job_worker_rss_mb", "scheduler_rss_mb")
    return [
        Metric(
            name,
            round(info.rss / MEGABYTE, 1),
            "MB",
            "under 60",
            1,
            f"resident memory of one idle process; of its own: {info.uss / MEGABYTE:.1f} MB (USS), "
            f"with its share of what others use too: {info.pss / MEGABYTE:.1f} MB (PSS)",
        )
        for name, info in zip(names, found, strict=True)
    ]
