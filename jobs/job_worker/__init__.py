"""The process behind `manage.py runworker`: claims runs, executes them, keeps their leases, writes their results."""
