"""The life of an asset: live, used, kept, deleted."""
