"""Making and changing bookings: conflicts, padding, lateness, calendar import and feed."""
