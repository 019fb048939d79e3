"""Workloads as tests want them, without the app that would own them."""

from django.conf import settings

from nodes.workloads import Supervision


def like_a_channel() -> Supervision:
    """Supervised as a channel is: polled every second, lost within seconds, fenced."""
    return Supervision(
        poll_seconds=settings.PLAYOUT_POLL_SECONDS, silence_seconds=settings.PLAYOUT_SILENCE_SECONDS, is_fenced=True
    )
