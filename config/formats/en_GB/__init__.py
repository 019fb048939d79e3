"""Formats for LANGUAGE_CODE en-gb."""
