"""Alerts: raised once, updated, acknowledged, resolved; sent by mail and webhook."""

from station.alerts.raising import acknowledge, raise_alert, resolve, resolve_alert, resolve_alerts
from station.alerts.summaries import Case, raise_together

__all__ = ["Case", "acknowledge", "raise_alert", "raise_together", "resolve", "resolve_alert", "resolve_alerts"]
