"""Compares the coverage of each app with its floor in pyproject.toml ([tool.airlock.coverage]), for `make coverage`."""

import json
import sys
import tomllib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def percent_by_app(report: Mapping[str, Any]) -> dict[str, float]:
    """Per cent of lines covered, for each top-level folder of a `coverage json` report."""
    covered: Counter[str] = Counter()
    lines: Counter[str] = Counter()
    for path, file in report["files"].items():
        app = path.partition("/")[0]
        covered[app] += file["summary"]["covered_lines"]
        lines[app] += file["summary"]["num_statements"]
    return {app: 100 * covered[app] / lines[app] if lines[app] else 100.0 for app in sorted(lines)}


def shortfalls(measured: Mapping[str, float], floors: Mapping[str, float]) -> list[str]:
    """A sentence for each app below its floor, without a floor, or not measured."""
    found = [f"{app} has no floor in pyproject.toml." for app in measured.keys() - floors.keys()]
    found += [f"{app} was not measured." for app in floors.keys() - measured.keys()]
    found += [
        f"{app}: {measured[app]:.1f} % is below the floor of {floor} %."
        for app, floor in floors.items()
        if app in measured and measured[app] < floor
    ]
    return sorted(found)


def main() -> int:
    rules = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    report = json.loads((ROOT / rules["coverage"]["json"]["output"]).read_text())
    measured, floors = percent_by_app(report), rules["airlock"]["coverage"]
    for app, percent in measured.items():
        print(f"{app:12} {percent:5.1f} %   floor {floors.get(app, '-')} %")
    found = shortfalls(measured, floors)
    for sentence in found:
        print(sentence)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
