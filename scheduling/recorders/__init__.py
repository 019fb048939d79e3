"""What a recorder may capture, and how its files are named."""
