"""Channels: on air, off air, failover, controls, and the configuration of the media worker."""
