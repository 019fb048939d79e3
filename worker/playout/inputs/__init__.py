"""Items on their way in: opened, decoded, placed in time."""
