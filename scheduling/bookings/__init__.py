"""Bookings before and between their states: making, changing, padding, lateness, calendars."""
