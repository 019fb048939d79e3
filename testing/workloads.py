"""Supervision policies for workloads that tests create without the app that owns them."""

from django.conf import settings

from nodes.workloads import Supervision


def like_a_channel() -> Supervision:
    """The policy of a channel: short poll interval, short allowed silence, fenced."""
    return Supervision(
        poll_seconds=settings.PLAYOUT_POLL_SECONDS, silence_seconds=settings.PLAYOUT_SILENCE_SECONDS, is_fenced=True
    )
