"""What both media workers need of ffmpeg, files and disks."""
