"""Fixtures of the tests of pages, rights and the API."""

import pytest

from scheduling.models import Recorder
from station.models import Project


@pytest.fixture
def sport() -> Project:
    return Project.objects.create(name="Sport", slug="sport")


@pytest.fixture
def recorders(project: Project, sport: Project) -> dict[str, Recorder]:
    return {
        "news": Recorder.objects.create(name="News cam", project=project, source_type="test"),
        "sport": Recorder.objects.create(name="Sport cam", project=sport, source_type="test"),
        "nobody": Recorder.objects.create(name="Orphan cam", project=None, source_type="test"),
    }
