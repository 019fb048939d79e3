"""Exit codes of a media worker, each with the reason that the control plane stores."""

DONE = 0
DISK_FULL = 3
ISOLATED = 5
BAD_CONFIG = 64
NO_CONFIG = 65
INTERNAL = 70
CANNOT_WRITE = 74
PORT_TAKEN = 98

REASONS = {
    DONE: "done",
    DISK_FULL: "disk_full",
    ISOLATED: "isolated",
    BAD_CONFIG: "bad_config",
    NO_CONFIG: "no_config",
    INTERNAL: "internal_error",
    CANNOT_WRITE: "cannot_write",
    PORT_TAKEN: "port_taken",
}
