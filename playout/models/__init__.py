"""The tables of playout."""

from playout.models.asrun import AsRunEntry
from playout.models.channel import Channel, ChannelEvent, Recovery
from playout.models.channel_output import ChannelOutput
from playout.models.playlist import Playlist, PlaylistItem

__all__ = ["AsRunEntry", "Channel", "ChannelEvent", "ChannelOutput", "Playlist", "PlaylistItem", "Recovery"]
