"""Support for the tests: waiting for conditions, media made and checked by ffmpeg, Docker Engines of their own."""
