"""Benchmarks. `make bench` writes bench/out/latest.json: one object per metric."""
