"""Processing of an asset after it is recorded or imported."""
