"""Folder and file names of recordings: templates with placeholders, safe for any name (S-04)."""

import re
from datetime import datetime
from typing import TypedDict

from django.core.exceptions import ValidationError

from station.folders import OWN_FOLDERS, safe_part

PLACEHOLDERS = ("project", "recorder", "date", "year", "month", "day", "time", "booking")
DEFAULT_FOLDER = "{project}/{recorder}/{date}"
_FIELD = re.compile(r"\{([^{}]*)\}")


class Values(TypedDict):
    project: str
    recorder: str
    booking: int
    starts_at: datetime  # in house time


def validate_template(template: str) -> None:
    """Check that it is a relative path with known placeholders."""
    if template.startswith("/") or "\\" in template or "\x00" in template:
        raise ValidationError("Use a path inside the media folder, with / between folders.")
    for name in _FIELD.findall(template):
        if name not in PLACEHOLDERS:
            known = ", ".join(f"{{{word}}}" for word in PLACEHOLDERS)
            raise ValidationError(f"{{{name}}} is not known. Use {known}.")
    if "{" in _FIELD.sub("", template) or "}" in _FIELD.sub("", template):
        raise ValidationError("A bracket is not closed.")
    if any(part.strip() in {"", ".", ".."} for part in template.split("/")):
        raise ValidationError("Each folder in the path needs a name, and . and .. are not allowed.")


def render_folder(template: str, values: Values) -> str:
    """The folder of one recording. Each part is made safe after filling in, so it stays inside the media folder."""
    starts = values["starts_at"]
    fills = {
        "project": values["project"],
        "recorder": values["recorder"],
        "booking": str(values["booking"]),
        "date": starts.strftime("%Y-%m-%d"),
        "year": starts.strftime("%Y"),
        "month": starts.strftime("%m"),
        "day": starts.strftime("%d"),
        "time": starts.strftime("%H%M"),
    }
    parts = [_FIELD.sub(lambda found: safe_part(fills[found[1]]), part) for part in template.split("/")]
    safe = [safe_part(part) for part in parts]
    if safe[0].lower() in OWN_FOLDERS:  # Airlock's own folders: previews are deleted, the library is managed
        safe[0] += "-recordings"
    return "/".join(safe)


def file_name(values: Values) -> str:
    """The file name: recorder and start time, unique by the booking's number."""
    return f"{safe_part(values['recorder'])}_{values['starts_at'].strftime('%Y%m%d-%H%M%S')}_b{values['booking']}"
