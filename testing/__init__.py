"""Support for the tests: waiting for conditions, media made and checked with ffmpeg, Docker Engines for the tests."""
