"""Channels, playlists, as-run, transport, failover."""
