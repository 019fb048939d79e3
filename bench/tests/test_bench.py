"""Each group of benchmarks can run alone."""

import pytest

from bench.metric import bench_project
from station.models import Project


@pytest.mark.django_db
def test_a_benchmark_creates_its_project_in_an_empty_database() -> None:
    assert not Project.objects.exists()
    assert bench_project() == bench_project() == Project.objects.get()
