"""Demo data that the first `make run` creates."""
