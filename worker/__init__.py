"""The media workers: the programs inside the containers. They use ffmpeg and Python's standard library, no Django."""
