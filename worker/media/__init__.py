"""ffmpeg, files and disks, for both media workers."""
