"""What the library answers over HTTP beside the admin."""
