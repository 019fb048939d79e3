"""Folder and file names: no name or template leads outside the media folder (S-04)."""

from datetime import UTC, datetime
from pathlib import PurePosixPath

import pytest
from django.core.exceptions import ValidationError
from hypothesis import given
from hypothesis import strategies as st

from scheduling.recorders.file_names import Values, file_name, render_folder, validate_template
from station.folders import safe_part

STARTS = datetime(2026, 3, 29, 20, 15, tzinfo=UTC)


def values(recorder: str = "Studio A", project: str = "news") -> Values:
    return {"project": project, "recorder": recorder, "booking": 7, "starts_at": STARTS}


def test_the_template_is_filled_in() -> None:
    folder = render_folder("{project}/{recorder}/{year}/{month}/{day} {time} b{booking}", values())
    assert folder == "news/Studio A/2026/03/29 2015 b7"
    assert file_name(values()) == "Studio A_20260329-201500_b7"


@pytest.mark.parametrize(
    "template",
    ["/abs", "../up", "a/../b", "a//b", "./a", "{unknown}", "{project", "a}", "", "a/", "a\\b", "{project.__class__}"],
)
def test_a_bad_template_is_refused_with_a_message(template: str) -> None:
    """S-04, S-07."""
    with pytest.raises(ValidationError) as refused:
        validate_template(template)
    assert refused.value.messages[0].endswith(".")


@pytest.mark.parametrize(
    "name", ["../../etc", "a/b", "..", ".hidden", "\x00", "", "  ", "CON\n", "Пример", "日本語", "x" * 500]
)
def test_hostile_names_become_plain_ones(name: str) -> None:
    part = safe_part(name)
    assert part
    assert "/" not in part
    assert part not in {".", ".."}
    assert not part.startswith(".")
    assert len(part.encode()) <= 60


@given(st.text(max_size=200), st.text(max_size=80))
def test_no_name_leads_outside_the_media_folder(recorder: str, project: str) -> None:
    """S-04."""
    folder = render_folder("{project}/{recorder}/{date}", values(recorder, project))
    path = PurePosixPath("/media") / folder / file_name(values(recorder, project))
    assert ".." not in path.parts
    assert len(path.parts) == 6
    assert path.is_relative_to("/media")
