"""From a rule to bookings: recurrence, planning ahead, planning again after an edit, rehearsal."""
