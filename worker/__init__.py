"""What runs inside the containers: Python's standard library and ffmpeg, no Django. Configured by one line on stdin."""
