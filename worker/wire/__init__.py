"""The messages between the control plane and the media workers: one dataclass for each."""
