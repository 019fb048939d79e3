"""The media worker that plays: it keeps one channel on air when clips, outputs or the control plane fail."""
