"""The media worker that records: parts, splitting, and a test of the source."""
