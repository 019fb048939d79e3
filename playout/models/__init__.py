"""The tables of playout."""

from playout.models.asrun import AsRunEntry
from playout.models.channel import Channel, ChannelEvent, ChannelOutput, Recovery
from playout.models.playlist import Playlist, PlaylistItem

__all__ = ["AsRunEntry", "Channel", "ChannelEvent", "ChannelOutput", "Playlist", "PlaylistItem", "Recovery"]
