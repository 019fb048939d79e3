"""Admin pages of the library."""

from assets.admin import assets, deliveries, intake, retention  # noqa: F401
