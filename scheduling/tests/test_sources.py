"""Typed addresses: what is allowed, what is refused and why, and where secrets are stored (S-03, S-05, S-07)."""

from io import StringIO
from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.core.exceptions import ValidationError
from django.core.management import CommandError, call_command
from hypothesis import given
from hypothesis import strategies as st

from scheduling.models import Recorder
from scheduling.recorders.sources import full_url, is_listener, parse_source, port_needed, words_to_redact

GOOD = [
    ("srt", "srt://encoder.example:9000", "srt://encoder.example:9000", {}),
    ("srt", "srt://0.0.0.0:9000?mode=listener&latency=200", "srt://0.0.0.0:9000?mode=listener&latency=200", {}),
    ("srt", "srt://h:9000?passphrase=open+sesame99", "srt://h:9000", {"passphrase": "open sesame99"}),
    ("srt", "srt://h:9000?streamid=abc&mode=caller", "srt://h:9000?mode=caller", {"query": "streamid=abc"}),
    ("srt", "srt://[2001:db8::1]:9000", "srt://[2001:db8::1]:9000", {}),
    ("rtmp", "rtmp://server.example/live/KEY/more", "rtmp://server.example/live", {"stream_key": "KEY/more"}),
    ("rtmps", "", "", {}),
    ("rtp", "rtp://239.1.1.1:5004", "rtp://239.1.1.1:5004", {}),
    ("udp", "udp://239.1.1.1:5000?fifo_size=1000", "udp://239.1.1.1:5000?fifo_size=1000", {}),
    ("rtsp", "rtsp://u:p%40ss@cam.example/s", "rtsp://cam.example/s", {"username": "u", "password": "p@ss"}),
    ("hls", "https://cdn.example/a.m3u8?token=T&x=1", "https://cdn.example/a.m3u8", {"query": "token=T&x=1"}),
    ("decklink", "03", "3", {}),
    ("test", "", "", {}),
]


@pytest.mark.parametrize(("kind", "typed", "stored", "secrets"), [row for row in GOOD if row[0] != "rtmps"])
def test_an_address_is_stored_without_its_secrets(kind: str, typed: str, stored: str, secrets: dict[str, str]) -> None:
    """S-05."""
    parsed = parse_source(kind, typed)
    assert (parsed.address, parsed.secrets) == (stored, secrets)


@pytest.mark.parametrize(
    ("kind", "typed"),
    [
        ("srt", "file:///etc/passwd"),
        ("srt", "/etc/passwd"),
        ("srt", "concat:a|b"),
        ("srt", "subfile,,start,0,end,0,,:/etc/passwd"),
        ("srt", "data:text/plain,x"),
        ("srt", "http://h:1/"),
        ("srt", "srt://h"),
        ("srt", "srt://-oProxyCommand=x:9000"),
        ("srt", "srt://h:9000?evil=1"),
        ("srt", "srt://h:9000?mode=banana"),
        ("srt", "srt://h:9000?passphrase=short"),
        ("srt", "srt://user:pw@h:9000"),
        ("rtmp", "rtmp://h/live?listen=7"),
        ("udp", "udp://h:1?fifo_size=x"),
        ("srt", "srt://h:9000?mode=a'b"),
        ("srt", "srt://h:99999"),
        ("srt", "srt://h:9000\nfile /etc/passwd"),
        ("srt", "srt://h:9000 -f lavfi"),
        ("srt", ""),
        ("rtmp", "rtmp:///live"),
        ("udp", "udp://h:1?unknown=x"),
        ("hls", "ftp://h/x.m3u8"),
        ("hls", "https://h/x.m3u8#frag"),
        ("decklink", "/dev/sda"),
        ("decklink", "１"),
        ("test", "movie=/etc/passwd"),
        ("hls", "https://[::1"),
    ],
)
def test_an_invalid_address_is_refused_with_a_message(kind: str, typed: str) -> None:
    """S-03, S-07."""
    with pytest.raises(ValidationError) as refused:
        parse_source(kind, typed)
    assert refused.value.messages[0].endswith(".")


@pytest.mark.parametrize(("kind", "typed"), [(row[0], row[1]) for row in GOOD if row[3]])
def test_the_full_address_contains_its_secrets(kind: str, typed: str) -> None:
    parsed = parse_source(kind, typed)
    again = parse_source(kind, full_url(kind, parsed.address, parsed.secrets))
    assert again == parsed


@given(st.text(max_size=200))
def test_no_text_breaks_the_parser(text: str) -> None:
    for kind in ("srt", "rtmp", "udp", "rtsp", "hls", "decklink", "test"):
        try:
            parsed = parse_source(kind, text)
        except ValidationError:
            continue
        assert "\n" not in parsed.address


@given(st.text(min_size=10, max_size=79), st.text(min_size=4, max_size=40))
def test_any_passphrase_and_password_survive_the_round_trip(passphrase: str, password: str) -> None:
    srt = full_url("srt", "srt://h:9000", {"passphrase": passphrase})
    assert parse_source("srt", srt).secrets.get("passphrase", "") == passphrase
    rtsp = full_url("rtsp", "rtsp://h/s", {"username": "u", "password": password})
    assert parse_source("rtsp", rtsp).secrets["password"] == password
    assert password in words_to_redact({"password": password})


def test_listeners_and_devices_need_their_port() -> None:
    """R-14."""
    assert port_needed("decklink", "2") == ("decklink", 2)
    assert port_needed("srt", "srt://0.0.0.0:9000?mode=listener") == ("udp", 9000)
    assert port_needed("rtmp", "rtmp://0.0.0.0/live?listen=1") == ("tcp", 1935)
    assert port_needed("udp", "udp://10.0.0.1:5000") == ("udp", 5000)
    assert port_needed("udp", "udp://239.1.1.1:5000") is None
    assert port_needed("srt", "srt://encoder.example:9000") is None
    assert is_listener("srt", "srt://h:1?mode=listener")


@pytest.mark.django_db
@pytest.mark.database
def test_no_way_to_save_leaves_a_secret_in_the_address(project: object) -> None:
    """S-05: neither the form nor the shell."""
    recorder = Recorder.objects.create(
        name="Cam", project=project, source_type="srt", address="srt://h:9000?passphrase=open-sesame-99"
    )

    row = Recorder.objects.filter(pk=recorder.pk).values().get()
    assert "sesame" not in str(row)
    assert Recorder.objects.get().secrets == {"passphrase": "open-sesame-99"}


@pytest.mark.django_db
@pytest.mark.database
def test_a_secret_is_not_kept_for_a_type_that_cannot_use_it(project: object) -> None:
    """S-05: the passphrase of an SRT source is never sent to an HLS server."""
    recorder = Recorder.objects.create(
        name="Cam", project=project, source_type="srt", address="srt://h:9000?passphrase=open-sesame-99"
    )
    recorder.source_type, recorder.address = "hls", "https://h/x.m3u8"
    recorder.save()

    assert Recorder.objects.get().secrets == {}
    assert full_url("hls", "https://h/x.m3u8", {"passphrase": "p", "stream_key": "k"}) == "https://h/x.m3u8"


@pytest.mark.django_db
@pytest.mark.database
def test_after_resealing_an_old_key_can_be_removed(project: object, settings: Any) -> None:
    """S-05: the key rotation of the runbook."""
    old, new = Fernet.generate_key().decode(), Fernet.generate_key().decode()
    settings.SEALING_KEYS = [old]
    Recorder.objects.create(
        name="Cam", project=project, source_type="srt", address="srt://h:9000?passphrase=open-sesame-99"
    )
    settings.SEALING_KEYS = [new, old]
    call_command("reseal", stdout=StringIO())
    settings.SEALING_KEYS = [new]

    assert Recorder.objects.get().secrets == {"passphrase": "open-sesame-99"}
    settings.SEALING_KEYS = [Fernet.generate_key().decode()]
    with pytest.raises(CommandError, match="recorder Cam"):
        call_command("reseal", stdout=StringIO())
