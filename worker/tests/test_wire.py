"""Messages between control plane and media workers: both sides read the same, and errors name the field."""

import json
import types
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta, timezone
from fractions import Fraction
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from worker.wire import codec
from worker.wire.asrun import AsRunPage, AsRunRecord
from worker.wire.codec import WireError
from worker.wire.commands import Command, Cue, End, Load, Pause, Play, Skip, Stop
from worker.wire.configuration import (
    CaptureConfig,
    Control,
    DiskAnswer,
    Handover,
    LaunchClock,
    Output,
    PlayoutConfig,
    ProbeAnswer,
    ProbeConfig,
    Source,
    read_handover,
    write_handover,
)
from worker.wire.launcher import ExitNote, ProcessIds
from worker.wire.parts_and_gaps import NO_SIGNAL, Gap, Part, RecordingJournal, find_gaps, missing_seconds
from worker.wire.picture import Format
from worker.wire.rundown import Item, Place, Rundown
from worker.wire.status import CaptureStatus, PlayoutStatus, WorkerStatus, final_line, kind_of, read_final

NOW = datetime(2026, 3, 29, 20, 15, tzinfo=UTC)
SOURCE = Source("srt", "srt://10.0.0.1:9000?passphrase=averysecretword")
RUNDOWN = Rundown("1", (Item("1", "asset", file="a.mp4"), Item("2", "slate", seconds=3.0)))
CAPTURE = CaptureConfig(source=SOURCE, folder="news", name="take", ends_at=NOW, secrets=("averysecretword",))
PLAYOUT = PlayoutConfig(
    format=Format(320, 180, Fraction(25)),
    outputs=(Output("1", "srt", "srt://10.0.0.2:1", secret={"passphrase": "averysecretword"}),),
    rundown=RUNDOWN,
    sources={"3": SOURCE},
    spool="playout/channel-1",
)

MESSAGES = [
    *(CaptureConfig, PlayoutConfig, ProbeConfig, ProbeAnswer, DiskAnswer, RecordingJournal, CaptureStatus),
    *(
        PlayoutStatus,
        WorkerStatus,
        AsRunPage,
        AsRunRecord,
        Stop,
        End,
        Load,
        Play,
        Pause,
        Skip,
        Cue,
        ProcessIds,
        ExitNote,
    ),
]

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
ZONES = st.integers(-720, 720).map(lambda minutes: timezone(timedelta(minutes=minutes)))
PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    str: TEXT,
    int: st.integers(-(2**60), 2**60),
    bool: st.booleans(),
    float: st.floats(allow_nan=False, allow_infinity=False),
    datetime: st.datetimes(timezones=ZONES),
    Format: st.just(Format(320, 180, Fraction(30000, 1001))),
}
# Fields that accept only some values.
SENSIBLE: dict[tuple[Any, str], st.SearchStrategy[Any]] = {
    (Item, "kind"): st.sampled_from(["asset", "live"]),
    (Output, "type"): st.just("srt"),
    (CaptureConfig, "name"): st.just("take"),
    (CaptureConfig, "container"): st.sampled_from(["mpegts", "fmp4"]),
    (CaptureConfig, "split_seconds"): st.integers(0, 10_000),
    (Rundown, "following"): st.none() | st.just(RUNDOWN),
    (Rundown, "following_at"): PLAIN[datetime],
}


def values(kind: Any) -> st.SearchStrategy[Any]:
    """Any value that a field of this type may hold."""
    inner = get_args(kind)
    if kind == tuple[Item, ...]:
        return st.lists(values(Item), max_size=3, unique_by=lambda item: item.key).map(tuple)
    if get_origin(kind) is tuple:
        return st.lists(values(inner[0]), max_size=3).map(tuple)
    if get_origin(kind) is dict:
        return st.dictionaries(TEXT, values(inner[1]), max_size=3)
    if get_origin(kind) in {Union, types.UnionType}:
        return st.none() | values(inner[0])
    if kind in PLAIN:
        return PLAIN[kind]
    hints = get_type_hints(kind)
    given_by_name = {
        each.name: SENSIBLE[kind, each.name] if (kind, each.name) in SENSIBLE else values(hints[each.name])
        for each in fields(kind)
    }
    return st.builds(kind, **given_by_name)


@pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.__name__)
def test_a_written_message_is_read_back_unchanged(kind: type[Any]) -> None:
    @settings(max_examples=60, deadline=None)
    @given(values(kind))
    def round_trip(message: Any) -> None:
        assert codec.loads(kind, codec.dumps(message)) == message

    round_trip()


@pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.__name__)
def test_every_message_has_a_version_and_later_versions_are_accepted(kind: type[Any]) -> None:
    @settings(max_examples=10, deadline=None)
    @given(values(kind))
    def read(message: Any) -> None:
        raw = codec.message(message)
        assert raw["wire"] == codec.VERSION
        later = {**raw, "wire": codec.VERSION + 1, "something_new": {"of": ["a later", "version"]}}
        assert codec.loads(kind, json.dumps(later)) == message
        with pytest.raises(WireError, match=r"^wire is missing$"):
            codec.loads(kind, json.dumps({name: value for name, value in raw.items() if name != "wire"}))

    read()


def broken(message: Any, *path: Any, **change: Any) -> dict[str, Any]:
    """The encoded message with the value at `path` changed or, without a change, removed."""
    raw = codec.message(message)
    place: Any = raw
    for step in path[:-1]:
        place = place[step]
    if change:
        place[path[-1]] = change["to"]
    else:
        del place[path[-1]]
    return raw


@pytest.mark.parametrize(
    ("message", "path", "change", "words"),
    [
        (Load(RUNDOWN), ("rundown", "items", 1, "key"), {}, "rundown.items[1].key is missing"),
        (Load(RUNDOWN), ("rundown",), {}, "rundown is missing"),
        (Load(RUNDOWN), ("rundown", "items", 1, "seconds"), {"to": "3"}, "rundown.items[1].seconds must be a number"),
        (Load(RUNDOWN), ("rundown", "items"), {"to": {}}, "rundown.items must be a list, not an object"),
        (Load(RUNDOWN), ("rundown", "items", 0), {"to": None}, "rundown.items[0] must be an object, not null"),
        (Load(RUNDOWN), ("rundown", "items", 0, "kind"), {"to": "no"}, "rundown.items[0]: kind must be one of asset"),
        (Load(RUNDOWN), ("rundown", "items", 0, "key"), {"to": "2"}, "rundown: two items have the same key"),
        (Load(RUNDOWN), ("rundown", "is_loop"), {"to": 1}, "rundown.is_loop must be true or false, not a whole number"),
        (PLAYOUT, ("format", "rate"), {"to": [25, 0]}, "format.rate must be two whole numbers"),
        (PLAYOUT, ("format", "width"), {"to": 321}, "format: width and height must be even numbers"),
        (PLAYOUT, ("sources", "3", "url"), {"to": 7}, "sources.3.url must be text, not a whole number"),
        (CAPTURE, ("first_part",), {"to": True}, "first_part must be a whole number, not true or false"),
        (CAPTURE, ("ends_at",), {"to": "2026-03-29T20:15:00"}, "ends_at must be a time with a zone"),
        (CAPTURE, ("ends_at",), {"to": "tomorrow"}, "ends_at must be a time with a zone"),
        (CAPTURE, ("min_free_bytes",), {"to": 1.5}, "min_free_bytes must be a whole number, not a number"),
        (CAPTURE, ("name",), {"to": "a/b"}, "name must be a plain file name"),
        (ProbeConfig(SOURCE), ("seconds",), {"to": float("nan")}, "seconds must be a number"),
        (Stop(), ("wire",), {"to": 0}, "wire must be 1 or more"),
    ],
)
def test_an_invalid_value_is_refused_with_the_name_of_its_field(
    message: Any, path: tuple[Any, ...], change: dict[str, Any], words: str
) -> None:
    with pytest.raises(WireError) as refused:
        codec.loads(type(message), json.dumps(broken(message, *path, **change)))
    assert str(refused.value).startswith(words)


@pytest.mark.parametrize("text", ["", "nonsense", "[]", "3", "null", "[" * 100_000, b"\xff"])
def test_text_that_is_not_a_message_is_refused(text: str | bytes) -> None:
    with pytest.raises(WireError):
        codec.loads(Stop, text)


def test_an_error_contains_nothing_of_the_message() -> None:
    """S-05: a configuration contains secrets, and the error is printed."""
    raw = broken(CAPTURE, "source", "options", to=["averysecretword"])
    with pytest.raises(WireError) as refused:
        codec.loads(CaptureConfig, json.dumps(raw))
    assert "averysecretword" not in str(refused.value)


@pytest.mark.parametrize("config", [CAPTURE, PLAYOUT], ids=["capture", "playout"])
def test_secrets_are_sealed_separately_and_the_media_worker_gets_them(config: Any) -> None:
    """S-05: the part without secrets is stored unencrypted."""
    is_open, sealed = codec.split(config)
    assert "averysecretword" not in json.dumps(is_open)
    assert "averysecretword" not in repr(config)
    control = Control("booking:1", 2, "token", "127.0.0.1", 9600)
    line = write_handover(control, {**is_open, **sealed})
    assert read_handover(type(config), line) == Handover(control, config)
    clock = LaunchClock(NOW, -3.5)
    assert read_handover(type(config), write_handover(control, {**is_open, **sealed}, clock)).clock == clock
    raw = json.loads(line)
    del raw["control"]["port"]
    with pytest.raises(WireError, match=r"^control\.port is missing$"):
        read_handover(type(config), json.dumps(raw))


def test_the_status_of_a_media_worker_of_another_version_is_read() -> None:
    """It lacks some fields and has some unknown ones."""
    told = {"wire": 7, "owner": "channel:1", "generation": 2, "frames": 9, "mood": "good", "item": {"key": "1", "x": 1}}
    status = codec.loads(PlayoutStatus, json.dumps(told))
    assert (status.frames, status.outputs, status.item and status.item.key) == (9, (), "1")
    with pytest.raises(WireError, match=r"^generation is missing$"):
        codec.loads(PlayoutStatus, '{"wire": 7, "owner": "channel:1"}')


@pytest.mark.parametrize("program", ["capture", "playout", "disk"])
def test_only_the_final_line_is_read_as_a_final_status(program: str) -> None:
    status = kind_of(program)(owner="x:1", generation=3, frames=5)
    assert read_final(kind_of(program), final_line(status)) == status
    for line in ("", "no preview: disk full", "{}", '{"final": 3}', '{"final": {"wire": 1}}'):
        with pytest.raises(WireError):
            read_final(kind_of(program), line)


def test_every_command_has_its_own_path() -> None:
    kinds = Command.__subclasses__()
    assert len({kind.path for kind in kinds}) == len(kinds)
    assert all(kind.path.startswith("/") for kind in kinds)


def test_values_of_unknown_types_cannot_be_sent() -> None:
    @dataclass
    class Strange:
        what: Any

    for what in (object(), b"bytes", datetime(2026, 1, 1)):  # noqa: DTZ001  (without a zone)
        with pytest.raises(TypeError):
            codec.dumps(Strange(what))


def made_part(number: int, first: float, last: float, reason: str = "stopped") -> Part:
    moments = (NOW + timedelta(seconds=first), NOW + timedelta(seconds=last))
    return Part(number, f"x-{number:03d}.ts", first_frame_at=moments[0], last_frame_at=moments[1], end_reason=reason)


def test_gaps_are_found_between_parts_and_inside_parts() -> None:
    """R-15: one function finds the gaps for all callers."""
    silence = Gap(NOW + timedelta(seconds=3), NOW + timedelta(seconds=5), 2.0, NO_SIGNAL)
    between = Gap(NOW, NOW, 9.0, "stalled")  # an earlier result; it is computed again from the parts
    parts = [made_part(1, 0, 10, ""), made_part(2, 10.1, 20), Part(3, "x-003.ts"), made_part(4, 25, 30)]
    longer = replace(silence, to_at=NOW + timedelta(seconds=5.5), seconds=2.5)
    found = find_gaps(parts, [silence, longer, between])
    assert [(gap.seconds, gap.reason) for gap in found] == [(2.5, "no_signal"), (5.0, "stopped")]
    assert find_gaps([made_part(1, 0, 10, ""), made_part(2, 12, 20)], [])[0].reason == "worker_died"


def test_gaps_that_overlap_count_once() -> None:
    """R-15: no picture from 8 s on, another silence inside it, and ffmpeg was replaced from 10 s to 14 s."""

    def silent(first: float, last: float) -> Gap:
        return Gap(NOW + timedelta(seconds=first), NOW + timedelta(seconds=last), last - first, NO_SIGNAL)

    parts = [made_part(1, 0, 10, "stalled"), made_part(2, 14, 30), made_part(3, 28, 31)]
    found = find_gaps(parts, [silent(8, 13), silent(7, 9), silent(20, 22), silent(21, 21.5)])
    assert [(gap.seconds, gap.reason) for gap in found] == [(3.0, "no_signal"), (4.0, "stalled"), (2.0, "no_signal")]
    assert find_gaps(parts, found) == found
    assert missing_seconds(parts, found, NOW, NOW + timedelta(seconds=31)) == 9.0


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 100)), max_size=5), st.floats(0, 100))
def test_missing_and_recorded_seconds_add_up_to_the_window(cuts: list[tuple[float, float]], length: float) -> None:
    """R-15: recorded seconds outside the window do not count."""
    edges = sorted(edge for cut in cuts for edge in cut)
    parts = [made_part(number, *edges[2 * number : 2 * number + 2]) for number in range(len(cuts))]
    missing = missing_seconds(parts, [], NOW, NOW + timedelta(seconds=length))
    inside = [(min(first, length), min(last, length)) for first, last in zip(edges[::2], edges[1::2], strict=True)]
    assert missing == pytest.approx(max(0.0, length - sum(last - first for first, last in inside)), abs=1e-3)


def test_a_place_is_encoded_and_decoded_unchanged() -> None:
    place = Place("1", 3.5, NOW, is_paused=True)
    assert codec.decode(Place, json.loads(json.dumps(codec.encode(place)))) == place


def test_a_message_is_ascii_so_that_no_locale_can_change_it() -> None:
    item = Item("1", "asset", title="K\u00fcche \u2028 \udce9")
    for text in [codec.dumps(Cue("\u00e9")), codec.dumps(item), write_handover(Control("o", 1, "\u00e9", "h", 1), {})]:
        assert text.isascii()
    assert codec.loads(Item, codec.dumps(item)) == item
