"""The admin pages of playout."""

from playout.admin import asrun, channels, playlists  # noqa: F401
