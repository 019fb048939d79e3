"""Machines: health checks, placement, ports, and the threads that call them."""
