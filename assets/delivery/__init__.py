"""Delivery of assets to an external MAM."""
