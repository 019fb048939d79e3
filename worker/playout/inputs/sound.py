"""The sound of one item, placed on the item's time line: late sound is dropped, missing sound is silence."""

from dataclasses import dataclass, field

from worker.playout.picture import SAMPLE_BYTES


@dataclass
class Sound:
    """Samples on the item's time line."""

    data: bytearray = field(default_factory=bytearray)
    starts_at: int | None = None  # the place of data[0], in samples from the first frame; None: not known yet
    clock: int = 0  # the number of samples taken

    def take(self, samples: int) -> bytes:
        out = bytearray(samples * SAMPLE_BYTES)
        if self.starts_at is not None:
            whole = len(self.data) // SAMPLE_BYTES
            late = max(0, min(self.clock - self.starts_at, whole))
            del self.data[: late * SAMPLE_BYTES]
            self.starts_at += late
            first = self.starts_at - self.clock
            count = min(samples - first, whole - late)
            if first >= 0 and count > 0:
                out[first * SAMPLE_BYTES : (first + count) * SAMPLE_BYTES] = self.data[: count * SAMPLE_BYTES]
                del self.data[: count * SAMPLE_BYTES]
                self.starts_at += count
        self.clock += samples
        return bytes(out)

    @property
    def ahead(self) -> int | None:
        """How many samples are there beyond those taken; None while their place is not known."""
        return None if self.starts_at is None else self.starts_at + len(self.data) // SAMPLE_BYTES - self.clock
