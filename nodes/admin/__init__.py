"""Admin pages of nodes, ports, reservations and workloads."""

from nodes.admin import nodes, ports, workloads

__all__ = ["nodes", "ports", "workloads"]
