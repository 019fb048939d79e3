"""A channel's life: on air, off air, moved, controlled by hand, and what its media worker is told."""
