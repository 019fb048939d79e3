"""The base app: projects and roles, alerts, audit, house time, sealed secrets, state machines."""
