"""The library: assets, processing, delivery to the MAM, retention."""
