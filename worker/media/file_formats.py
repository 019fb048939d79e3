"""How untrusted files are opened: the allowed formats and protocols, and several files as one."""

from collections.abc import Sequence
from pathlib import Path

# Formats that refer to other files (playlists, scripts) are left out on purpose.
FORMATS = (
    "mpegts,mov,mp4,matroska,webm,mxf,avi,flv,mpeg,mpegvideo,dv,gxf,asf,nut,h264,hevc,"
    "wav,w64,aiff,mp3,aac,ac3,eac3,flac,ogg,caf"
)
PROTOCOLS = "file"


def concat_list(files: Sequence[Path]) -> str:
    """A file list for ffmpeg's concat demuxer."""
    quoted = ("file:" + str(path).replace("'", "'\\''") for path in files)
    return "ffconcat version 1.0\n" + "".join(f"file '{path}'\n" for path in quoted)
