"""Machines and what runs on them: nodes, ports, workloads, the Docker and process runtimes, and reconcile."""
