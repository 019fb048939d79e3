"""Runs the benchmarks and writes bench/out/latest.json. Arguments: the groups to run (default: all).

Each group has its own process and temporary database, so that it does not slow down the next one.
"""

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from bench.metric import Metric, prepare

OUT = Path(__file__).resolve().parent / "out" / "latest.json"


GROUPS = (
    "booking",
    "lists",
    "start",
    "punctuality",
    "takeover",
    "idle",
    "live",
    "jobs",
    "jobs-idle",
    "memory",
    "playout",
    "failover",
)


def main() -> None:
    for name in sys.argv[1:] or GROUPS:
        if len(sys.argv) == 2:
            measure(name)
        else:
            subprocess.run([sys.executable, "-m", "bench", name], check=True)


def measure(name: str) -> None:
    prepare()
    from bench.failover import measure_failover
    from bench.idle import measure_idle
    from bench.jobs import measure_jobs, measure_run_idle
    from bench.lists import measure_lists
    from bench.live import measure_live
    from bench.memory import measure_memory
    from bench.playout import measure_playout
    from bench.punctuality import measure_punctuality
    from bench.recording import measure_booking, measure_start
    from bench.takeover import measure_takeover

    measures = (
        measure_booking,
        measure_lists,
        measure_start,
        measure_punctuality,
        measure_takeover,
        measure_idle,
        measure_live,
        measure_jobs,
        measure_run_idle,
        measure_memory,
        measure_playout,
        measure_failover,
    )
    metrics: list[Metric] = dict(zip(GROUPS, measures, strict=True))[name]()
    for metric in metrics:
        print(f"{metric.name:32} {metric.value:>10} {metric.unit:8} target {metric.target}", flush=True)
    OUT.parent.mkdir(parents=True, exist_ok=True)
    known = {each["name"]: each for each in json.loads(OUT.read_text())} if OUT.exists() else {}
    known.update({metric.name: asdict(metric) for metric in metrics})
    OUT.write_text(json.dumps(list(known.values()), indent=1) + "\n")


if __name__ == "__main__":
    main()
