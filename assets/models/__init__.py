"""Models of the library."""

from assets.models.asset import Asset, AssetEvent, AssetPart, AssetStep
from assets.models.delivery import Delivery, DeliveryAttempt, DeliveryEvent, Destination
from assets.models.intake import Import, ImportEvent, WatchFolder
from assets.models.retention import RetentionRule

__all__ = [
    "Asset",
    "AssetEvent",
    "AssetPart",
    "AssetStep",
    "Delivery",
    "DeliveryAttempt",
    "DeliveryEvent",
    "Destination",
    "Import",
    "ImportEvent",
    "RetentionRule",
    "WatchFolder",
]
