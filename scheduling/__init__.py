"""Recorders, schedules and bookings, and the loop that starts and stops recordings on time."""
