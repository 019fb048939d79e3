"""Alerts: raised once, updated, acknowledged, resolved; sent by mail and webhook."""

from station.alerts.raising import acknowledge, raise_alert, resolve, resolve_alert

__all__ = ["acknowledge", "raise_alert", "resolve", "resolve_alert"]
