"""Formats of our one language."""
