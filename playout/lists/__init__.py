"""Playlists: timing, rundown, imports, copies, insertion and the assets they use."""
