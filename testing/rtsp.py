"""A small RTSP server for tests: one stream, MPEG-TS in RTP, interleaved in the control connection."""

import contextlib
import socketserver
import struct
import subprocess
import threading
from collections.abc import Iterator

from testing.media import environment, ffmpeg

TS_PACKETS = 7 * 188
SDP_LINES = ("v=0", "o=- 0 0 IN IP4 127.0.0.1", "s=test", "t=0 0", "m=video 0 RTP/AVP 33", "a=rtpmap:33 MP2T/90000")
SDP = "\r\n".join((*SDP_LINES, "a=control:track1", ""))


class Handler(socketserver.StreamRequestHandler):
    """Answers OPTIONS, DESCRIBE, SETUP and PLAY, then sends packets until the client disconnects."""

    server: "Server"

    def handle(self) -> None:
        while request := self._read_request():
            method, sequence = request
            if method == "DESCRIBE" and not self.authorised:
                self._answer(sequence, "401 Unauthorized", 'WWW-Authenticate: Basic realm="test"')
                continue
            if method == "DESCRIBE":
                self._answer(sequence, "200 OK", "Content-Type: application/sdp", body=SDP)
            elif method == "SETUP":
                self._answer(sequence, "200 OK", "Transport: RTP/AVP/TCP;unicast;interleaved=0-1", "Session: 1")
            elif method == "PLAY":
                self._answer(sequence, "200 OK", "Session: 1")
                self._play()
                return
            else:
                self._answer(sequence, "200 OK", "Public: OPTIONS, DESCRIBE, SETUP, PLAY")

    def _read_request(self) -> tuple[str, str] | None:
        lines = []
        while line := self.rfile.readline().decode().strip():
            lines.append(line)
        if not lines:
            return None
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        self.authorised = self.server.login in headers.get("authorization", "")
        return lines[0].split()[0], headers.get("cseq", "0")

    def _answer(self, sequence: str, status: str, *headers: str, body: str = "") -> None:
        lines = [f"RTSP/1.0 {status}", f"CSeq: {sequence}", *headers, f"Content-Length: {len(body)}", "", body]
        self.wfile.write("\r\n".join(lines).encode())

    def _play(self) -> None:
        command = [
            ffmpeg(),
            "-loglevel",
            "error",
            "-re",
            "-f",
            "lavfi",
            "-i",
            "testsrc2=size=320x180:rate=25",
            "-t",
            "120",
        ]
        command += [
            "-c:v",
            "libx264",
            "-preset",
            "ultrafast",
            "-tune",
            "zerolatency",
            "-g",
            "25",
            "-f",
            "mpegts",
            "pipe:1",
        ]
        player = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, env=environment())
        number = 0
        with contextlib.suppress(OSError), player:
            assert player.stdout is not None
            try:
                while chunk := player.stdout.read(TS_PACKETS):
                    header = struct.pack("!BBHII", 0x80, 33, number & 0xFFFF, number * 3600 & 0xFFFFFFFF, 1)
                    packet = header + chunk
                    self.wfile.write(b"$\x00" + struct.pack("!H", len(packet)) + packet)
                    number += 1
            finally:
                player.kill()


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    login = ""


@contextlib.contextmanager
def rtsp_server(login: str = "") -> Iterator[int]:
    """Serve until the block ends; yields the port. With `login` (base64 of user:password), clients must log in."""
    with Server(("127.0.0.1", 0), Handler) as server:
        server.login = login
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield int(server.server_address[1])
        server.shutdown()
