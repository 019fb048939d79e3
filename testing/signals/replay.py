"""Sends a transport stream file over UDP at a constant rate: PORT FILE BITS_PER_SECOND. Byte for byte, with its faults.

A program that reads the stream's own clock would stop or hurry where that clock jumps.
"""

import socket
import sys
import time
from pathlib import Path

DATAGRAM = 7 * 188


def main(port: str, path: str, rate: str) -> None:
    content = Path(path).read_bytes()
    began = time.monotonic()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for start in range(0, len(content), DATAGRAM):
            left = began + start * 8 / float(rate) - time.monotonic()
            if left > 0:
                time.sleep(left)
            sender.sendto(content[start : start + DATAGRAM], ("127.0.0.1", int(port)))


if __name__ == "__main__":
    main(*sys.argv[1:])
