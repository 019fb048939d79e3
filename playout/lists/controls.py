"""The actions on a playlist: copy it to another day, import a file."""

from datetime import date, datetime

from playout.lists import imports
from playout.lists.copies import copy_to
from playout.models import Playlist
from station.actions import Outcome, action, done

CHANGE = "playout.change_playlist"


@action(
    "copy",
    "Copy to…",
    permission=CHANGE,
    when=lambda playlist: playlist.channel_id is not None,
    otherwise="not a list of a channel",
    makes_target=True,
)
def copy(playlist: Playlist, *, now: datetime, by: str, day: date) -> Outcome:
    """Copy the list to another day of its channel."""
    made = copy_to(playlist, day, now)
    return done(f"Created playlist {made}.", target=made, details={"from": str(playlist)})


@action("import", "Import", permission=CHANGE)
def fill(playlist: Playlist, *, now: datetime, by: str, preview: imports.Preview, name: str) -> Outcome:
    """Replace the items of the list by those of the file."""
    count = imports.save(preview, playlist, now)
    return done(f"{playlist} now has {count} items.", details={"items": count, "file": name})
