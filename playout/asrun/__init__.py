"""The as-run log: collected from the media workers, and exported."""
