"""`playout`: one channel on air, whatever happens to its clips, its outputs or its control plane."""
