"""The HTTP API of channels and playlists (P-01)."""

from playout.api.channels import channels
from playout.api.playlists import playlists

__all__ = ["channels", "playlists"]
