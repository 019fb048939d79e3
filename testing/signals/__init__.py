"""Foreign senders and receivers for the signal matrix: GStreamer, srt-live-transmit, nginx with its RTMP module, mpv.

A case is a sender (or a receiver), sometimes a fault, and a verdict. docs/signals.md says how to test a new device.
"""
