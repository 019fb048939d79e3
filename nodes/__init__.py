"""Machines and their workloads: nodes, ports, workloads, the Docker and process runtimes, and reconcile."""
