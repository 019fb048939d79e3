"""Formats of dates and times in the admin (FORMAT_MODULE_PATH)."""
