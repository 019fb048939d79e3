"""What the control plane and the media workers say to each other: one dataclass for each message."""
