"""Nodes, ports and their reservations, workloads."""

from nodes.models.node import Node, NodeEvent
from nodes.models.port import Port, Reservation
from nodes.models.workload import Workload, WorkloadEvent

__all__ = ["Node", "NodeEvent", "Port", "Reservation", "Workload", "WorkloadEvent"]
