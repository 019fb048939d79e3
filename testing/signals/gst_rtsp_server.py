"""Runs the RTSP server of GStreamer until it is killed: PORT PIPELINE [USER PASSWORD]. For Debian's Python."""

import sys

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstRtspServer", "1.0")
from gi.repository import GLib, Gst, GstRtspServer  # noqa: E402  (after the versions)


def protect(server: "GstRtspServer.RTSPServer", factory: "GstRtspServer.RTSPMediaFactory", login: list[str]) -> None:
    """Let in only who knows user and password (digest)."""
    auth, token = GstRtspServer.RTSPAuth(), GstRtspServer.RTSPToken()
    auth.set_supported_methods(2)  # GST_RTSP_AUTH_DIGEST
    token.set_string("media.factory.role", "user")
    auth.add_digest(*login, token)
    permissions = GstRtspServer.RTSPPermissions()
    for right in ("media.factory.access", "media.factory.construct"):
        permissions.add_permission_for_role("user", right, True)
    factory.set_permissions(permissions)
    server.set_auth(auth)


def main(port: str, pipeline: str, *login: str) -> None:
    Gst.init(None)
    server = GstRtspServer.RTSPServer(service=port, address="127.0.0.1")
    factory = GstRtspServer.RTSPMediaFactory(launch=pipeline, shared=True)
    if login:
        protect(server, factory, list(login))
    server.get_mount_points().add_factory("/stream", factory)
    server.attach(None)
    print("ready", flush=True)
    GLib.MainLoop().run()


if __name__ == "__main__":
    main(*sys.argv[1:])
