"""The library: assets, processing, delivery to the MAM, retention. Empty yet: the house is built from below."""
