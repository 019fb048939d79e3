"""Background work of all apps: declared jobs, their runs, and the job workers that execute them. Knows no bookings."""
