"""The folders of a recording and its preview."""

from dataclasses import dataclass
from pathlib import Path

from worker.process.config_line import inside
from worker.wire.configuration import CaptureConfig


@dataclass(frozen=True)
class Folders:
    recording: Path
    preview: Path | None

    @classmethod
    def of(cls, config: CaptureConfig, media: Path) -> "Folders":
        """Raises ConfigError if one of them is not below the media folder."""
        preview = inside(media, config.preview) if config.preview else None
        return cls(inside(media, config.folder), preview)
