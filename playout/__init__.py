"""Channels, playlists, as-run, transport, failover. Empty yet: the house is built from below."""
