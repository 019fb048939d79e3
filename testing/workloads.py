"""Supervision policies for workloads that tests make without the app that owns them."""

from django.conf import settings

from nodes.workloads import Supervision


def like_a_channel() -> Supervision:
    """The policy of a channel: polled every second, lost after seconds, fenced."""
    return Supervision(
        poll_seconds=settings.PLAYOUT_POLL_SECONDS, silence_seconds=settings.PLAYOUT_SILENCE_SECONDS, is_fenced=True
    )
