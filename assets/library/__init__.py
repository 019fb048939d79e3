"""Assets over their life: live, in use, kept, deleted."""
