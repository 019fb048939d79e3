"""Jobs and runs: one engine for all background work. What an app needs of it is here; the duties are in the modules."""
