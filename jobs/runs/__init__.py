"""Runs in the database: planned, queued, claimed, kept, finished, swept, deleted."""
