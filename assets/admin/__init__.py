"""The library's pages."""

from assets.admin import assets, deliveries, intake, retention  # noqa: F401
