"""As-run: collected from the media workers, exported for people and systems."""
