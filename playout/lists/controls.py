"""What people do to a playlist by hand: copy it to another day, fill it from a file."""

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
    otherwise="not the list of a channel",
    makes_target=True,
)
def copy(playlist: Playlist, *, now: datetime, by: str, day: date) -> Outcome:
    """Only a list of a channel has another day to be copied to."""
    made = copy_to(playlist, day)
    return done(f"Created playlist {made}.", target=made, details={"from": str(playlist)})


@action("import", "Import", permission=CHANGE)
def fill(playlist: Playlist, *, now: datetime, by: str, preview: imports.Preview, name: str) -> Outcome:
    """Replace what is in the list by what the file holds."""
    count = imports.save(preview, playlist)
    return done(f"{playlist} has {count} items now.", details={"items": count, "file": name})
