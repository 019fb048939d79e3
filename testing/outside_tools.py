"""Programs of other people that tests ask for their verdict. With CI=true they are required (.ci/install)."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SECONDS = 60


def require(name: str, package: str) -> str:
    """The path of the program. Without it, the test is skipped; with CI=true it fails."""
    path = shutil.which(name)
    if path is not None:
        return path
    if os.environ.get("CI") == "true":
        pytest.fail(f"CI=true requires {name} (.ci/install installs {package})")
    pytest.skip(f"no {name} on this machine (Debian: {package})")


def xmltv_faults(file: Path) -> str:
    """What `tv_validate_file` finds, by the module behind it: the program may fetch the DTD from the network."""
    require("tv_validate_file", "xmltv-util")
    listed = subprocess.run(
        ["dpkg", "-L", "xmltv-util", "libxmltv-perl"], capture_output=True, text=True, timeout=SECONDS, check=True
    )
    dtd = next(line for line in listed.stdout.splitlines() if line.endswith("/xmltv.dtd"))
    script = "LoadDtd(shift); print join(' ', ValidateFile(shift)), qq(\\n);"
    command = ["perl", "-MXMLTV::ValidateFile=LoadDtd,ValidateFile", "-e", script, dtd, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True)
    return done.stdout.strip()


CONFIGURATION = """[calendars]
[[feed]]
path = {folder}/calendar
[sqlite]
path = {folder}/khal.db
[locale]
local_timezone = {zone}
default_timezone = {zone}
timeformat = %H:%M
dateformat = %Y-%m-%d
longdateformat = %Y-%m-%d
datetimeformat = %Y-%m-%d %H:%M
longdatetimeformat = %Y-%m-%d %H:%M
[default]
default_calendar = feed
"""


def events_in_khal(feed: bytes, folder: Path, zone: str, first_day: str) -> list[str]:
    """The events of 30 days as khal lists them after it imported the feed: day, start, end, title."""
    khal = require("khal", "khal")
    (folder / "calendar").mkdir()
    (folder / "feed.ics").write_bytes(feed)
    (folder / "config").write_text(CONFIGURATION.format(folder=folder, zone=zone))
    environment = {**os.environ, "HOME": str(folder), "LC_ALL": "C.UTF-8"}

    def run(*arguments: str) -> str:
        command = [khal, "-c", str(folder / "config"), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, env=environment, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("import", "-a", "feed", "--batch", str(folder / "feed.ics"))
    shown = "{start-date} {start-time} {end-time} {title}"
    listed = run("list", "-a", "feed", "--once", "--format", shown, "--day-format", "", first_day, "30d")
    return [line.strip() for line in listed.splitlines() if line.strip()]
