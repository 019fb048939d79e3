"""The buttons of a booking's page and the actions of the list."""

from unfold.enums import ActionVariant

from scheduling.bookings.controls import restore, skip
from scheduling.recording.controls import cancel_booking, extend_booking, start_early, stop_booking
from station.admin.buttons import BulkAction, Button


def _extension(minutes: int) -> Button:
    """A button that lets a booking end so many minutes later."""
    return Button(
        extend_booking,
        "more_time",
        f"{minutes} minutes more?",
        f"It ends {minutes} minutes later.",
        submit="Extend",
        label=f"+{minutes} min",
        name=f"extend_{minutes}",
        values={"minutes": minutes},
    )


BUTTONS = [
    Button(
        start_early,
        "fiber_manual_record",
        "Start it now?",
        "It starts at once instead of at its planned time and keeps its end.",
        submit="Start",
        variant=ActionVariant.PRIMARY,
    ),
    Button(
        stop_booking,
        "stop",
        "Stop the recording?",
        "What was recorded is kept. The rest is not recorded.",
        variant=ActionVariant.DANGER,
    ),
    *(_extension(minutes) for minutes in (15, 30, 60)),
    Button(
        skip,
        "event_busy",
        "Skip this booking?",
        "Only this booking is skipped; the schedule continues. It can be restored.",
    ),
    Button(restore, "undo", "Restore this booking?", "It is planned again if the recorder is still free at that time."),
    Button(
        cancel_booking,
        "cancel",
        "Cancel this booking?",
        "If it is running, it is stopped; files already written stay.",
        submit="Cancel it",
        variant=ActionVariant.DANGER,
    ),
]
# "Skipped" is a state of bookings, so rows without a change are reported as "unchanged".
BULK_ACTIONS = [
    BulkAction(each, done, left="unchanged")
    for each, done in (
        (stop_booking, "stopped"),
        (cancel_booking, "cancelled"),
        (skip, "skipped"),
        (restore, "planned again"),
    )
]
