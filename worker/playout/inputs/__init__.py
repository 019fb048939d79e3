"""The inputs of a channel: items are opened, decoded and placed in time."""
