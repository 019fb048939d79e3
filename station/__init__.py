"""The ground floor: projects and roles, alerts, audit, house time, sealed secrets, the pattern of state machines."""
