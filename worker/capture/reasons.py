"""The reasons why a part ends, and those that end the recording."""

STOPPED, ENDED, DISK_FULL, STALLED, DIED, SOURCE_LOST, NUMBER_TAKEN, NO_PICTURE, CHANGED = (
    "stopped",
    "ended",
    "disk_full",
    "stalled",
    "ffmpeg_died",
    "source_lost",
    "number_taken",
    "no_picture",
    "source_changed",
)
FINAL = {STOPPED, ENDED, DISK_FULL}
WORDS = {
    STALLED: "ffmpeg made no progress and was replaced",
    DIED: "ffmpeg ended unexpectedly",
    SOURCE_LOST: "the source cannot be read",
    DISK_FULL: "the disk is full",
    CHANGED: "the source sends another picture track",
    NO_PICTURE: "the source sends no picture",
    NUMBER_TAKEN: "another media worker writes the next file of this recording",
}
