"""Foreign senders: what a recorder reads, and the programs that send it.

A new device is one more function: its programs, and the source as the recorder's form would say it.
"""

import contextlib
import socket
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from testing.media import environment, ffmpeg, free_port
from testing.signals.tools import SYSTEM_PYTHON, Program, running
from testing.waiting import wait_until

PICTURE = (
    "videotestsrc is-live=true pattern=ball ! video/x-raw,format=I420,width=320,height=180,framerate=25/1 ! x264enc "
    "tune=zerolatency speed-preset=ultrafast key-int-max=25 bitrate=400 ! h264parse config-interval=1"
)
SOUND = "audiotestsrc is-live=true ! audio/x-raw,rate=48000,channels=2 ! voaacenc ! aacparse"
TRANSPORT_STREAM = f"{PICTURE} ! queue ! mux. {SOUND} ! queue ! mux. mpegtsmux name=mux alignment=7"
FLV = f"{PICTURE} ! queue ! mux. {SOUND} ! queue ! mux. flvmux name=mux streamable=true"
SECRET = "a-long-passphrase"
MULTICAST = "239.255.77.1"


@dataclass
class Sender:
    """The source as a recorder reads it, and the programs that send it: the last one is the device itself."""

    source: dict[str, Any]
    programs: list[Program]
    secrets: list[str] = field(default_factory=list)
    # The same source with a wrong key or password, where it has one.
    wrong: dict[str, Any] | None = None
    # Called after the start: returns when the sender can be read.
    is_ready: Callable[[], bool] = lambda: True
    site: "Site | None" = None
    has_sound: bool = True

    @property
    def device(self) -> Program:
        return self.programs[-1]

    @contextlib.contextmanager
    def on_air(self) -> Iterator["Sender"]:
        with self.site.served() if self.site else contextlib.nullcontext(), running(self.programs):
            wait_until(self.is_ready, 30, f"the sender can be read: {self.device.text()[-500:]}")
            yield self


class Site:
    """A folder served over HTTP, behind a password if one is given."""

    def __init__(self, folder: Path, login: str = "", port: int = 0) -> None:
        self.folder, self.port = folder, port or free_port()
        self.wanted = f"Basic {b64encode(login.encode()).decode()}" if login else ""
        folder.mkdir(exist_ok=True)

    @contextlib.contextmanager
    def served(self) -> Iterator[None]:
        server = ThreadingHTTPServer(("127.0.0.1", self.port), partial(_Files, directory=str(self.folder)))
        server.wanted = self.wanted  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            server.server_close()


class _Files(SimpleHTTPRequestHandler):
    def do_GET(self) -> None:
        wanted = self.server.wanted  # type: ignore[attr-defined]
        if wanted and self.headers.get("Authorization") != wanted:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="plant"')
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        super().do_GET()

    def log_message(self, *args: Any) -> None:
        pass


def gstreamer(pipeline: str, folder: Path, name: str = "gst") -> Program:
    return Program("gst-launch-1.0", "-q", *pipeline.split(), log=folder / f"{name}.log")


def calling(pipeline: str, folder: Path) -> Program:
    """GStreamer as a device that calls again when nobody answers."""
    again = 'while true; do gst-launch-1.0 -q "$@"; sleep 0.5; done'
    return Program("sh", "-c", again, "sh", *pipeline.split(), log=folder / "gst.log")


def _srt(**options: str) -> tuple[int, str]:
    return free_port(socket.SOCK_DGRAM), "".join(f"&{name}={value}" for name, value in options.items())


def srt_caller(folder: Path) -> Sender:
    """The recorder calls GStreamer's srtsink."""
    port, options = _srt(passphrase=SECRET, pbkeylen="16")
    pipeline = (
        f"{TRANSPORT_STREAM} ! srtsink uri=srt://127.0.0.1:{port}?mode=listener{options} wait-for-connection=false"
    )
    source = {"type": "srt", "url": f"srt://127.0.0.1:{port}?mode=caller{options}"}
    wrong = {**source, "url": source["url"].replace(SECRET, "not-the-passphrase")}
    return Sender(source, [gstreamer(pipeline, folder)], [SECRET], wrong)


def srt_listener(folder: Path) -> Sender:
    """GStreamer's srtsink calls the recorder, with a stream id and a key of 32 bytes."""
    port, options = _srt(passphrase=SECRET, pbkeylen="32")
    uri = f"srt://127.0.0.1:{port}?mode=caller{options}&streamid=studio-1"
    source = {"type": "srt", "url": f"srt://127.0.0.1:{port}?mode=listener{options}"}
    wrong = {**source, "url": source["url"].replace(SECRET, "not-the-passphrase")}
    return Sender(source, [calling(f"{TRANSPORT_STREAM} ! srtsink uri={uri}", folder)], [SECRET], wrong)


def srt_relay(folder: Path) -> Sender:
    """The recorder calls srt-live-transmit, which relays a transport stream from UDP."""
    feed, port = free_port(socket.SOCK_DGRAM), free_port(socket.SOCK_DGRAM)
    relay = ["srt-live-transmit", "-q", f"udp://127.0.0.1:{feed}", f"srt://127.0.0.1:{port}?mode=listener"]
    programs = [
        Program(*relay, log=folder / "relay.log"),
        gstreamer(f"{TRANSPORT_STREAM} ! udpsink host=127.0.0.1 port={feed}", folder),
    ]
    return Sender({"type": "srt", "url": f"srt://127.0.0.1:{port}?mode=caller"}, programs)


def rtmp_pull(folder: Path) -> Sender:
    """The recorder pulls from nginx, to which GStreamer's rtmp2sink publishes."""
    port = free_port()
    server = nginx_rtmp(folder, port)
    pipeline = f"{FLV} ! rtmp2sink location=rtmp://127.0.0.1:{port}/live/studio"
    source = {"type": "rtmp", "url": f"rtmp://127.0.0.1:{port}/live/studio"}
    return Sender(source, [server, calling(pipeline, folder)])


def rtmp_listener(folder: Path) -> Sender:
    """GStreamer's rtmp2sink publishes to the recorder."""
    port = free_port()
    address = f"rtmp://127.0.0.1:{port}/live/key"
    source = {"type": "rtmp", "url": address, "options": {"listen": "1"}}
    return Sender(source, [calling(f"{FLV} ! rtmp2sink location={address}", folder)])


def udp(folder: Path, host: str = "127.0.0.1") -> Sender:
    port = free_port(socket.SOCK_DGRAM)
    sink = f"udpsink host={host} port={port}" + _interface(host)
    source = {"type": "udp", "url": f"udp://{host}:{port}{_read_from(host)}"}
    return Sender(source, [gstreamer(f"{TRANSPORT_STREAM} ! {sink}", folder)])


def rtp(folder: Path, host: str = "127.0.0.1") -> Sender:
    """MPEG-TS in RTP (RFC 2250)."""
    port = free_port(socket.SOCK_DGRAM) // 2 * 2
    sink = f"rtpmp2tpay ! udpsink host={host} port={port}" + _interface(host)
    source = {"type": "rtp", "url": f"rtp://{host}:{port}{_read_from(host)}"}
    return Sender(source, [gstreamer(f"{TRANSPORT_STREAM} ! {sink}", folder)])


def _interface(host: str) -> str:
    return " multicast-iface=lo auto-multicast=true" if host.startswith("239.") else ""


def _read_from(host: str) -> str:
    return "?localaddr=127.0.0.1" if host.startswith("239.") else ""


def rtsp(folder: Path, transport: str = "tcp", login: tuple[str, ...] = ()) -> Sender:
    """The recorder reads from the RTSP server of GStreamer; with a login it is asked for a digest."""
    port = free_port()
    pipeline = f"( {PICTURE} ! rtph264pay name=pay0 pt=96 {SOUND} ! rtpmp4gpay name=pay1 pt=97 )"
    script = Path(__file__).with_name("gst_rtsp_server.py")
    device = Program(SYSTEM_PYTHON, script, str(port), pipeline, *login, log=folder / "rtsp.log")
    given = f"{':'.join(login)}@" if login else ""
    options = {"rtsp_transport": transport, "timeout": "5000000"}
    url = f"rtsp://{given}127.0.0.1:{port}/stream"
    source = {"type": "rtsp", "url": url, "options": options}
    wrong = {**source, "url": url.replace(login[1], "not-the-password")} if login else None
    return Sender(source, [device], list(login[1:]), wrong, lambda: "ready" in device.text())


def hls(folder: Path, login: str = "") -> Sender:
    """The recorder reads HLS written by GStreamer's hlssink2, behind basic authentication if there is a login."""
    site = Site(folder / "site", login)
    sink = f"hlssink2 name=sink target-duration=1 max-files=8 playlist-length=5 location={site.folder}/%05d.ts"
    pipeline = (
        f"{PICTURE} ! queue ! sink.video {SOUND} ! queue ! sink.audio {sink} playlist-location={site.folder}/index.m3u8"
    )
    given = f"{login}@" if login else ""
    source = {"type": "hls", "url": f"http://{given}127.0.0.1:{site.port}/index.m3u8"}
    wrong = {**source, "url": source["url"].replace(login.split(":")[1], "not-the-password")} if login else None
    ready = lambda: len(list(site.folder.glob("*.ts"))) > 2  # noqa: E731  (one expression)
    return Sender(source, [gstreamer(pipeline, folder)], login.split(":")[1:], wrong, ready, site)


def hls_encrypted(folder: Path) -> Sender:
    """Segments encrypted with AES-128, the key from the same server. Sent by ffmpeg: hlssink2 cannot encrypt."""
    site = Site(folder / "site")
    (site.folder / "key.bin").write_bytes(bytes(range(16)))
    info = folder / "key.txt"
    info.write_text(f"http://127.0.0.1:{site.port}/key.bin\n{site.folder / 'key.bin'}\n")
    command = [ffmpeg(), "-loglevel", "error", "-nostdin", "-re", "-f", "lavfi", "-i", "testsrc2=size=320x180:rate=25"]
    command += ["-c:v", "libx264", "-preset", "ultrafast", "-g", "25", "-pix_fmt", "yuv420p", "-t", "120", "-f", "hls"]
    command += ["-hls_time", "1", "-hls_list_size", "5", "-hls_key_info_file", str(info), f"{site.folder}/index.m3u8"]
    device = Program("env", f"GCONV_PATH={environment()['GCONV_PATH']}", *command, log=folder / "ffmpeg.log")
    ready = lambda: len(list(site.folder.glob("*.ts"))) > 2  # noqa: E731  (one expression)
    source = {"type": "hls", "url": f"http://127.0.0.1:{site.port}/index.m3u8"}
    return Sender(source, [device], is_ready=ready, site=site, has_sound=False)


def nginx_rtmp(folder: Path, port: int) -> Program:
    """nginx with its RTMP module as a relay."""
    config = folder / "nginx.conf"
    config.write_text(
        f"""load_module /usr/lib/nginx/modules/ngx_rtmp_module.so;
daemon off; pid {folder}/nginx.pid; error_log {folder}/nginx-error.log; user root; worker_processes 1;
events {{ worker_connections 64; }}
rtmp {{ server {{ listen 127.0.0.1:{port}; application live {{ live on; drop_idle_publisher 10s; }} }} }}
"""
    )
    return Program("nginx", "-c", config, "-p", folder, "-e", folder / "nginx-error.log", log=folder / "nginx.log")
