"""Leadership and the loop: which scheduler leads, which steps are due, which bookings start on the instant."""
