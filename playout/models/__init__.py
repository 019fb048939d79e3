"""The tables of playout."""

from playout.models.asrun import AsRunEntry
from playout.models.channel import Channel, ChannelEvent
from playout.models.channel_output import ChannelOutput
from playout.models.playlist import Playlist, PlaylistItem
from playout.models.recovery import Recovery

__all__ = ["AsRunEntry", "Channel", "ChannelEvent", "ChannelOutput", "Playlist", "PlaylistItem", "Recovery"]
