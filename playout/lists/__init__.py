"""Playlists: timing, rundown, imports, copies, insertion, which assets they use."""
