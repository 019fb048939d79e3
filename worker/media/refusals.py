"""What ffmpeg and libsrt print when the other side refuses us or our secret, and what it means to a person."""

import re
from collections.abc import Iterable

DIFFERENT = "wrong SRT passphrase: the two sides have different ones"
ONE_SIDED = "one side of the SRT connection has a passphrase and the other has none"
CREDENTIALS = {
    "rtmp": "the RTMP server refuses the stream key or the password",
    "rtsp": "the RTSP server refuses the user name or the password",
    "hls": "the HLS server refuses the user name, the password or the token",
}
WRONG_PLACE = {
    "rtmp": "the RTMP server does not know this application or stream key",
    "rtsp": "the RTSP server has no stream at this path",
    "hls": "the HLS server has no list at this address",
}
# libsrt 1.4 and 1.5 and ffmpeg 5.1 and 7.0 print the same words here, on both sides of a connection.
_PASSPHRASE = re.compile(r"Incorrect passphrase|BADSECRET|WRONG_?PASSWORD|1010 - ")
_LACKING = re.compile(r"Password required or unexpected|UNSECURE|1011 - ")
_REFUSED = re.compile(
    r"401 Unauthorized|403 Forbidden|AccessManager\.Reject|need auth|authorization failed|access denied"
    r"|authfail|Unauthorized"
    r"|NetStream\.Publish\.(Denied|BadName|Rejected)|NetConnection\.Connect\.Rejected|Authentication",
    re.IGNORECASE,
)
_UNKNOWN = re.compile(
    r"404 Not Found|NetStream\.Play\.StreamNotFound|NetStream\.Publish\.Failed|InvalidApp|method DESCRIBE failed: 404"
)


def refusal_in(said: Iterable[str], kind: str) -> str:
    """One sentence if the other side refused; empty if these lines say nothing about that."""
    lines = list(said)
    if kind == "srt":
        for pattern, words in ((_PASSPHRASE, DIFFERENT), (_LACKING, ONE_SIDED)):
            if any(pattern.search(line) for line in lines):
                return words
    for pattern, table in ((_REFUSED, CREDENTIALS), (_UNKNOWN, WRONG_PLACE)):
        if kind in table and any(pattern.search(line) for line in lines):
            return table[kind]
    return ""
