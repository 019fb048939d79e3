"""Runs in the database: planning, queueing, promotion, claiming, leases, finishing, sweeping, retention."""
