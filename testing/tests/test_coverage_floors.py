"""The coverage of each app is compared with its floor."""

from testing.coverage_floors import percent_by_app, shortfalls


def file(covered: int, lines: int) -> dict[str, dict[str, int]]:
    return {"summary": {"covered_lines": covered, "num_statements": lines}}


def test_coverage_is_added_up_for_each_app() -> None:
    files = {"jobs/a.py": file(10, 10), "jobs/runs/b.py": file(5, 10), "nodes/c.py": file(0, 4)}
    assert percent_by_app({"files": files}) == {"jobs": 75.0, "nodes": 0.0}


def test_an_app_below_its_floor_is_found() -> None:
    assert shortfalls({"jobs": 74.9}, {"jobs": 75}) == ["jobs: 74.9 % is below the floor of 75 %."]
    assert shortfalls({"jobs": 75.0}, {"jobs": 75}) == []


def test_an_app_without_a_floor_or_a_measurement_is_found() -> None:
    assert shortfalls({"jobs": 75.0}, {"nodes": 1}) == [
        "jobs has no floor in pyproject.toml.",
        "nodes was not measured.",
    ]
