"""How assets reach an external MAM: one small module per connector, chosen by the destination's setting.

A connector has `check_config(config, has_secret)`, which returns a sentence for each fault, and `send(parcel, config,
secret, remember)`, which sends the asset and returns the number that the MAM gave it. Sending again must be harmless:
the parcel's key is the same every time.
"""

from importlib import import_module
from typing import Any

from assets.delivery.connectors.parcel import NotDelivered, Parcel, Remember

NAMES = ("http", "folder")

__all__ = ["NAMES", "NotDelivered", "Parcel", "Remember", "check_config", "send"]


def check_config(connector: str, config: Any, *, has_secret: bool) -> list[str]:
    """What is wrong with a configuration; empty if nothing is."""
    if not isinstance(config, dict):
        return ["The configuration is an object: {…}."]
    faults: list[str] = _module(connector).check_config(config, has_secret=has_secret)
    return faults


def send(connector: str, parcel: Parcel, config: dict[str, Any], secret: str, remember: Remember) -> str:
    """Hand it over; answers their number. Raises NotDelivered."""
    number: str = _module(connector).send(parcel, config, secret, remember)
    return number


def _module(connector: str) -> Any:
    if connector not in NAMES:
        raise NotDelivered(f"There is no connector called {connector}.")
    return import_module(f"assets.delivery.connectors.{connector}")
