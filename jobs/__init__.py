"""Background work of all apps: declared jobs, their runs, and the job workers. It does not depend on bookings."""
