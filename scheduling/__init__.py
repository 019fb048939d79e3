"""Recorders and their bookings: what is recorded when, and the loop that makes it happen."""
