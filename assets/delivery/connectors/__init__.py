"""Connectors to an external MAM: one module each, chosen by the destination.

A connector has `check_config(config, has_secret)`, which returns a sentence for each fault, and `send(parcel, config,
secret, remember)`, which sends the asset and returns its ID in the MAM. Sending again must be harmless: the parcel's
key is the same every time.
"""

import json
from importlib import import_module
from typing import Any

from assets.delivery.connectors.parcel import NotDelivered, Parcel, Remember

NAMES = ("http", "folder")

__all__ = ["NAMES", "NotDelivered", "Parcel", "Remember", "check_config", "send"]


def check_config(connector: str, config: Any, *, has_secret: bool) -> list[str]:
    """Faults of a configuration, one sentence each; empty if it is valid."""
    if not isinstance(config, dict):
        return ["The configuration must be a JSON object: {…}."]
    if "\\u0000" in json.dumps(config):
        return ["The database cannot store a NUL character."]
    faults: list[str] = _module(connector).check_config(config, has_secret=has_secret)
    return faults


def send(connector: str, parcel: Parcel, config: dict[str, Any], secret: str, remember: Remember) -> str:
    """Send the parcel. Returns its ID in the MAM. Raises NotDelivered."""
    number: str = _module(connector).send(parcel, config, secret, remember)
    return number


def _module(connector: str) -> Any:
    if connector not in NAMES:
        raise NotDelivered(f"There is no connector called {connector}.")
    return import_module(f"assets.delivery.connectors.{connector}")
