"""Fixtures of the playout tests."""

from typing import Any

import pytest

from testing.channels import make_channel


@pytest.fixture
def channel(process_node: Any, project: Any, settings: Any) -> Any:
    settings.WORKER_PREVIEW = False
    settings.MANUAL_WAIT_SECONDS = 40
    return make_channel(project, settings.RECORDINGS_DIR)
