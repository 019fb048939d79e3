"""Schedules and the bookings made from them: recurrence, planning, replanning after an edit, rehearsal."""
