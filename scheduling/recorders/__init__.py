"""The addresses a recorder may capture, and the names of its files."""
