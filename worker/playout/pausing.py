"""Holds the picture of a paused channel: the last frame, or black, as the channel is set."""

from worker.playout.pipes import Data


class Pause:
    """Used under the director's lock."""

    def __init__(self, *, is_paused: bool, holds_picture: bool, black: Data) -> None:
        self.is_paused = is_paused
        self.frame = black
        self._holds_picture, self._black = holds_picture, black
        # A media worker that continues a paused channel shows one frame of the item and then holds it.
        self._needs_frame = is_paused and holds_picture

    @property
    def is_held(self) -> bool:
        return self.is_paused and not self._needs_frame

    def play(self) -> None:
        self.is_paused = self._needs_frame = False

    def pause(self, last: Data) -> None:
        self.is_paused, self._needs_frame = True, False
        self.frame = last if self._holds_picture else self._black

    def note_frame(self, frame: Data) -> None:
        """An item has shown this frame."""
        if self._needs_frame:
            self.frame, self._needs_frame = frame, False
