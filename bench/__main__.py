"""Run all measurements on a throw-away database and write bench/out/latest.json. Arguments: only these groups."""

import json
import sys
from dataclasses import asdict
from pathlib import Path

from bench.metric import Metric, prepare

OUT = Path(__file__).resolve().parent / "out" / "latest.json"


def main() -> None:
    prepare()
    from bench.idle import measure_idle
    from bench.jobs import measure_jobs, measure_run_idle
    from bench.punctuality import measure_punctuality
    from bench.recording import measure_booking, measure_start

    groups = {
        "booking": measure_booking,
        "start": measure_start,
        "punctuality": measure_punctuality,
        "idle": measure_idle,
        "jobs": measure_jobs,
        "jobs-idle": measure_run_idle,
    }
    wanted = sys.argv[1:] or list(groups)
    metrics: list[Metric] = []
    for name in wanted:
        metrics += groups[name]()
        for metric in metrics[-20:]:
            print(f"{metric.name:32} {metric.value:>10} {metric.unit:8} target {metric.target}", flush=True)
    OUT.parent.mkdir(parents=True, exist_ok=True)
    known = {each["name"]: each for each in json.loads(OUT.read_text())} if OUT.exists() and sys.argv[1:] else {}
    known.update({metric.name: asdict(metric) for metric in metrics})
    OUT.write_text(json.dumps(list(known.values()), indent=1) + "\n")


if __name__ == "__main__":
    main()
