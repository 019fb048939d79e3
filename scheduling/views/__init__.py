"""Pages and live page fragments outside the admin: recorders, schedules, tonight, punctuality, calendars."""
