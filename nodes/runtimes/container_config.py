"""The Docker configuration of every media worker container: hardened, and built from an allow-list."""

from dataclasses import dataclass
from typing import Any

from django.conf import settings

from nodes.runtimes.base import Identity, Launch

LABEL_INSTALLATION = "airlock.installation"
LABEL_OWNER = "airlock.owner"
LABEL_GENERATION = "airlock.generation"
LABEL_EPOCH = "airlock.epoch"
MEDIA_MOUNT = "/media"
TEMP_MOUNT = "/tmp"  # noqa: S108  (inside the container)
MEGABYTE = 1024 * 1024
HOST_NETWORK = "host"


@dataclass(frozen=True)
class Place:
    """The node's part of the container configuration."""

    image: str
    media_dir: str
    network: str


def labels_of(identity: Identity) -> dict[str, str]:
    return {
        LABEL_INSTALLATION: identity.installation,
        LABEL_OWNER: identity.owner,
        LABEL_GENERATION: str(identity.generation),
        LABEL_EPOCH: str(identity.epoch),
    }


def identity_of(labels: dict[str, str] | None) -> Identity | None:
    """The identity in a container's labels; None if they are incomplete."""
    labels = labels or {}
    try:
        return Identity(
            installation=labels[LABEL_INSTALLATION],
            owner=labels[LABEL_OWNER],
            generation=int(labels[LABEL_GENERATION]),
            epoch=int(labels.get(LABEL_EPOCH, "0")),
        )
    except (KeyError, ValueError):
        return None


def container_config(launch: Launch, place: Place) -> dict[str, Any]:
    """The body of the engine's create call. It holds no secrets: the config goes through standard input."""
    published = {}
    if place.network != HOST_NETWORK and launch.control_port:
        published = {f"{launch.control_port}/tcp": [{"HostPort": str(launch.control_port)}]}
    memory = (launch.memory_mb or settings.WORKER_MEMORY_MB) * MEGABYTE
    return {
        "Image": place.image,
        "Cmd": [launch.program],
        "User": settings.WORKER_USER,
        "Labels": labels_of(launch.identity),
        "OpenStdin": True,
        "StdinOnce": True,
        "AttachStdin": True,
        "Tty": False,
        "ExposedPorts": {port: {} for port in published},
        "StopSignal": "SIGTERM",
        "HostConfig": {
            "CapDrop": ["ALL"],
            "SecurityOpt": ["no-new-privileges:true"],
            "Privileged": False,
            "ReadonlyRootfs": True,
            "Memory": memory,
            "MemorySwap": memory,
            "NanoCpus": int(settings.WORKER_CPUS * 1_000_000_000),
            "PidsLimit": settings.WORKER_PIDS,
            "NetworkMode": place.network,
            "PortBindings": published,
            "RestartPolicy": {"Name": "no"},
            "AutoRemove": False,
            "Tmpfs": {TEMP_MOUNT: "rw,noexec,nosuid,nodev,size=64m,mode=1777"},
            "Mounts": [
                {
                    "Type": "bind",
                    "Source": place.media_dir,
                    "Target": MEDIA_MOUNT,
                    "BindOptions": {"Propagation": "rprivate"},
                }
            ],
            "Devices": [
                {"PathOnHost": device, "PathInContainer": device, "CgroupPermissions": "rw"}
                for device in launch.devices
            ],
            "LogConfig": {"Type": "json-file", "Config": {"max-size": "10m", "max-file": "2"}},
        },
    }
