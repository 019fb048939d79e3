"""Pages and live pieces beside the admin's own: recorders, schedules, tonight, punctuality, calendars."""
