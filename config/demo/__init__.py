"""What a newcomer finds after the first `make run`."""
