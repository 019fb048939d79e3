"""What comes next, frame by frame, on a pretended clock: slates of given lengths stand for clips."""

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from worker.playout.asrun_spool import Spool
from worker.playout.director import Director
from worker.playout.loaded import ChannelSetup, Item, Resume, Rundown
from worker.playout.main_loop import Stage
from worker.wire.configuration import Control
from worker.wire.picture import Format

RATE = 5
BEGIN = 1_000_000.0


def item(key: str, seconds: float | None = 10.0, *fixed: float, **more: Any) -> Item:
    return Item(key, more.pop("kind", "slate"), key, seconds=seconds, fixed_at=fixed, **more)


def missing(key: str, *fixed: float, **more: Any) -> Item:
    """The stage hand cannot open it."""
    return item(key, 10.0, *fixed, kind="asset", **more)


class Theatre:
    """A director, its clock, and a stage hand that opens nothing."""

    def __init__(self, folder: Path, *items: Item, **more: Any) -> None:
        resume = more.pop("resume", None)
        rundown = Rundown("1", items, more.pop("is_loop", False), more.pop("begins_at", None), **more)
        config = ChannelSetup(
            control=Control(owner="channel:1", generation=1, token="", host="", port=0),
            media=folder,
            format=Format(16, 16, Fraction(RATE)),
            outputs=(),
            rundown=rundown,
            filler=None,
            resume=resume,
            slate="black",
            pause="hold",
            preview=None,
            spool=folder,
            video_bitrate="1M",
            audio_bitrate="96k",
            isolation_seconds=None,
            secrets=(),
        )
        self.ticks = 0
        self.spool = Spool(folder, 1)
        self.director = Director(config, self.spool, BEGIN, lambda: None)

    @property
    def now(self) -> float:
        return BEGIN + self.ticks / RATE

    def run(self, until: float) -> None:
        """Tick by tick to `until` seconds after the begin."""
        while self.ticks < until * RATE:
            for slot in self.director.wishes(self.now):
                if slot.item.kind == "asset":
                    slot.failure = "it is not there"
            self.director.tick(self.now)
            self.director.take_finished()
            self.ticks += 1

    def load(self, *items: Item, **more: Any) -> None:
        self.director.load(Rundown("2", items, more.pop("is_loop", False), more.pop("begins_at", None)), self.now)

    def asrun(self) -> list[tuple[str, float, str]]:
        """(what, how many seconds, how it ended) of everything of the list that is over."""
        entries = sorted(self.spool.since(0).entries, key=lambda entry: entry.seq)
        return [(entry.key, entry.frames / RATE, entry.reason) for entry in entries if entry.key and entry.ended_at]


@pytest.fixture
def theatre(tmp_path: Path) -> Iterator[Any]:
    made: list[Theatre] = []

    def make(*items: Item, **more: Any) -> Theatre:
        made.append(Theatre(tmp_path, *items, **more))
        return made[-1]

    yield make
    for each in made:
        each.spool.close()


def test_what_is_inserted_behind_what_is_on_is_played_next(theatre: Any) -> None:
    """P-09: although the three after it were announced already; and what is open of them stays open."""
    a, b, c, d = (item(key) for key in "abcd")
    stage = theatre(a, b, c, d)
    stage.run(3)
    announced = stage.director.lineup.upcoming[0]
    stage.load(a, item("x", 2.0), b, c, d)
    assert stage.director.lineup.upcoming[1] is announced
    stage.run(23)
    assert stage.asrun() == [("a", 10.0, "played"), ("x", 2.0, "played"), ("b", 10.0, "played")]


def test_a_skip_waits_until_what_follows_can_be_shown(theatre: Any) -> None:
    """P-01: no slate between the two; and not for ever."""
    stage = theatre(item("a", 30.0), item("slow", 10.0, kind="growing"), item("b", 30.0))
    stage.run(3)
    stage.director.skip(stage.now)
    assert stage.director.lineup.upcoming[0] in stage.director.wishes(stage.now), "however far it was"
    stage.run(7)
    assert stage.director.slot.item.key == "a", "what follows is being opened"
    stage.director.lineup.upcoming[0].failure = "it cannot be opened"
    stage.run(8)
    assert stage.asrun() == [("a", pytest.approx(7.0, abs=0.3), "skipped"), ("slow", 0.0, "bad")]
    assert stage.director.slot.item.key == "b"


def test_a_skip_does_not_wait_for_ever_and_does_not_skip_twice(theatre: Any) -> None:
    """P-01: five seconds; and what ended by itself meanwhile was not what somebody wanted to end."""
    stage = theatre(item("a", 30.0), item("slow", 10.0, kind="growing"), item("b", 30.0))
    stage.run(3)
    stage.director.skip(stage.now)
    stage.run(9)
    assert stage.asrun()[0] == ("a", pytest.approx(8.0, abs=0.3), "skipped")

    stage = theatre(item("a", 5.0), item("slow", 10.0, kind="growing"), item("b", 30.0))
    stage.run(3)
    stage.director.skip(stage.now)
    stage.run(20)
    assert [(key, reason) for key, _, reason in stage.asrun()] == [("a", "played"), ("slow", "bad")]
    assert stage.director.slot.item.key == "b"


def test_what_is_moved_up_is_played_earlier(theatre: Any) -> None:
    """P-01: the editor's drag-sort reaches the air."""
    a, b, c, d = (item(key) for key in "abcd")
    stage = theatre(a, b, c, d)
    stage.run(3)
    stage.load(a, d, c, b)
    stage.run(41)
    assert [key for key, _, _ in stage.asrun()] == ["a", "d", "c", "b"]


def test_what_is_deleted_while_on_air_plays_to_its_end_and_its_followers_follow(theatre: Any) -> None:
    a, b, c = (item(key) for key in "abc")
    stage = theatre(a, b, c)
    stage.run(3)
    stage.load(b, c)
    stage.run(31)
    assert [key for key, _, _ in stage.asrun()] == ["a", "b", "c"]


def test_a_fixed_start_is_opened_once_and_leaves_nothing_behind(theatre: Any) -> None:
    """A slot that nobody asks for any more would be an ffmpeg for ever."""
    stage = theatre(item("a", 100.0), item("news", 5.0, BEGIN + 10), item("c"))
    stage.run(12)
    assert stage.asrun() == [("a", 10.0, "cut")]
    assert stage.director.lineup.fixed_starts.opened == {}
    wanted = [slot.item.key for slot in stage.director.wishes(stage.now)]
    assert wanted.count("news") == 1


def test_a_fixed_start_that_cannot_be_shown_does_not_keep_the_next_from_its_time(theatre: Any) -> None:
    """P-09: an open-ended source is on; 10 is not there, 20 waits politely, 30 cuts."""
    live = item("live", None)
    stage = theatre(
        live, missing("10", BEGIN + 10), item("20", 5.0, BEGIN + 20, is_cut=False), item("30", 5.0, BEGIN + 30)
    )
    stage.run(36)
    assert stage.asrun() == [("live", 30.0, "cut"), ("10", 0.0, "bad"), ("20", 0.0, "too late"), ("30", 5.0, "played")]


def test_what_was_taken_before_its_time_is_not_called_again(theatre: Any) -> None:
    """P-09: of a day's list. Somebody cued the news early; at its time the show after it goes on."""
    stage = theatre(item("a", 100.0), item("news", 5.0, BEGIN + 30), item("show", 100.0))
    stage.run(10)
    assert stage.director.cue("news")
    stage.director.skip(stage.now)
    stage.run(60)
    assert stage.asrun() == [("a", 10.0, "skipped"), ("news", 5.0, "played")]
    assert stage.director.slot.item.key == "show"


def test_a_fixed_item_that_is_joined_in_progress_is_not_too_late(theatre: Any) -> None:
    """P-07, P-09: after a failover the film of 20:00 goes on, however small its patience was."""
    film = item("film", 100.0, BEGIN - 50, max_late_seconds=5)
    stage = theatre(film, item("b"), begins_at=BEGIN - 50)
    stage.run(1)
    assert stage.director.slot.item.key == "film"
    assert stage.director.slot.offset_seconds == pytest.approx(50.8)


PARTS = (
    item("a"),
    item("film", 10.0, BEGIN + 25),
    item("film.2", part_of="film"),
    item("film.3", part_of="film"),
    item("z"),
)


def test_the_parts_of_a_recording_belong_together(theatre: Any) -> None:
    """P-09: skipped is skipped as a whole."""
    stage = theatre(*PARTS)
    stage.run(30)
    stage.director.skip(stage.now)
    stage.run(41)
    assert [(key, reason) for key, _, reason in stage.asrun()] == [
        ("a", "played"),
        ("film", "skipped"),
        ("z", "played"),
    ]


def test_a_loop_plays_the_parts_of_a_fixed_item_only_with_it(theatre: Any) -> None:
    stage = theatre(*PARTS, is_loop=True)
    stage.run(56)
    assert [key for key, _, _ in stage.asrun()] == ["a", "z", "a", "film", "film.2", "film.3"]


def test_parts_of_what_is_too_late_are_left_out_with_it(theatre: Any) -> None:
    late = (item("long", 50.0), item("film", 10.0, BEGIN + 10, is_cut=False, max_late_seconds=5))
    stage = theatre(*late, item("film.2", part_of="film"), item("z", 100.0))
    stage.run(52)
    assert [(key, reason) for key, _, reason in stage.asrun()] == [("long", "played"), ("film", "too late")]
    assert stage.director.slot.item.key == "z"


def test_the_next_days_list_takes_over_on_the_second_with_nobody_there(theatre: Any) -> None:
    """P-13, P-09: the list of any day is on; at its time the day's own list cuts it, told ahead."""
    tomorrow = Rundown("t", (item("first"), item("second", 100.0)), begins_at=BEGIN + 20)
    stage = theatre(item("endless", None), is_loop=True, following=tomorrow, following_at=BEGIN + 20)
    stage.run(35)
    assert stage.asrun() == [("endless", 20.0, "cut"), ("first", 10.0, "played")]
    assert stage.director.slot.item.key == "second"
    assert stage.director.status(stage.now).rundown == "t"


def test_what_was_opened_for_a_day_that_is_taken_away_again_is_closed(theatre: Any) -> None:
    """P-09: somebody deletes tomorrow's list four seconds before it begins; its first clip was open already."""
    tomorrow = Rundown("t", (item("first"),), begins_at=BEGIN + 20)
    endless = item("endless", None)
    stage = theatre(endless, is_loop=True, following=tomorrow, following_at=BEGIN + 20)
    stage.run(18)
    opened = [slot for slot in stage.director.wishes(stage.now) if slot.item.key == "first"]
    assert len(opened) == 1
    stage.load(endless, is_loop=True)
    assert opened[0] in stage.director.take_finished()
    stage.run(40)
    assert stage.director.slot.item.key == "endless"


def test_a_days_list_that_comes_late_is_joined_by_the_clock(theatre: Any) -> None:
    """P-07: it belongs to that time of day, whatever is on."""
    stage = theatre(item("endless", None), is_loop=True)
    stage.run(25)
    stage.load(item("first"), item("second", 100.0), begins_at=BEGIN + 10)
    stage.run(27)
    assert stage.asrun() == [("endless", pytest.approx(25.0, abs=1.1), "cut")]
    assert stage.director.slot.item.key == "second"
    assert stage.director.slot.offset_seconds == pytest.approx(5.8, abs=0.3)


def test_a_day_that_is_replaced_altogether_goes_on_by_the_clock_when_what_is_on_ends(theatre: Any) -> None:
    """P-12: an import over the list that is on air."""
    stage = theatre(item("film", 30.0), begins_at=BEGIN)
    stage.run(10)
    stage.load(item("1", 20.0), item("2", 20.0), item("3", 20.0), begins_at=BEGIN)
    stage.run(41)
    film, second = stage.asrun()
    assert film == ("film", pytest.approx(30.0, abs=1.0), "played")
    assert second == ("2", pytest.approx(10.0, abs=1.2), "played")


def test_what_waits_keeps_its_place_when_the_list_gets_shorter(theatre: Any) -> None:
    """P-09: B is deleted while F waits for A to end; after F comes G."""
    a, f = item("a", 30.0), item("f", 5.0, BEGIN + 10, is_cut=False)
    stage = theatre(a, item("b"), f, item("g", 5.0), item("h", 5.0))
    stage.run(15)
    stage.load(a, f, item("g", 5.0), item("h", 5.0))
    stage.run(46)
    assert [key for key, _, _ in stage.asrun()] == ["a", "f", "g", "h"]


def test_a_bad_first_clip_of_the_next_day_does_not_end_the_day(theatre: Any) -> None:
    """P-09, P-13: a loop is on, nobody is there, and the first of tomorrow's list is missing: its second one cuts."""
    tomorrow = Rundown("t", (missing("first"), item("second", 10.0), item("third", 100.0)), begins_at=BEGIN + 20)
    stage = theatre(item("endless", None), is_loop=True, following=tomorrow, following_at=BEGIN + 20)
    stage.run(35)
    assert stage.asrun() == [
        ("endless", pytest.approx(20.0, abs=1.0), "cut"),
        ("first", 0.0, "bad"),
        ("second", 10.0, "played"),
    ]
    assert stage.director.slot.item.key == "third"


def test_a_bad_clip_where_a_day_is_joined_is_passed_over(theatre: Any) -> None:
    """P-07, P-09: somebody dates a list for today; what would be on now is missing."""
    stage = theatre(item("endless", None), is_loop=True)
    stage.run(15)
    stage.load(item("first"), missing("now"), item("then", 100.0), begins_at=BEGIN)
    stage.run(18)
    assert stage.director.slot.item.key == "then"


def test_a_day_whose_first_item_has_a_time_begins_with_that_time(theatre: Any) -> None:
    """P-07, P-09: filled until 08:00, however early somebody starts, and then from its first frame."""
    stage = theatre(item("early", 100.0, BEGIN + 30), item("b"), begins_at=BEGIN - 60)
    stage.run(29)
    assert stage.director.slot is None
    stage.run(32)
    assert stage.director.slot.item.key == "early"
    assert stage.director.slot.offset_seconds == 0.0


def test_a_list_of_which_nothing_can_be_played_says_so_once(theatre: Any) -> None:
    """P-10: an hour of a missing disk is not ten thousand lines of as-run."""
    stage = theatre(*(missing(str(number)) for number in range(20)), is_loop=True)
    stage.run(600)
    assert len(stage.asrun()) == 20
    stage.load(item("good", 5.0), missing("1"), is_loop=True)
    stage.run(612)
    assert next(key for key, _, reason in stage.asrun() if reason == "played") == "good"


def test_a_soft_start_that_waited_when_the_worker_died_is_not_forgotten(theatre: Any) -> None:
    """P-07, P-09: in a loop nothing else leads to it."""
    resume = Resume(key="film", offset_seconds=40.0, at=BEGIN, is_paused=False)
    soft = item("soft", 10.0, BEGIN - 20, is_cut=False)
    stage = theatre(item("film", 60.0), soft, item("c"), is_loop=True, resume=resume)
    stage.run(40)
    assert [key for key, _, _ in stage.asrun()][:2] == ["film", "soft"]


def test_a_paused_channel_is_held_at_its_picture_after_a_failover(theatre: Any) -> None:
    """P-07: not at the slate, and not a frame further."""
    resume = Resume(key="a", offset_seconds=4.0, at=BEGIN - 60, is_paused=True)
    stage = theatre(item("a"), item("b"), resume=resume)
    stage.run(8)
    assert stage.director.state() == "paused"
    assert (stage.director.slot.item.key, stage.director.slot.frames) == ("a", 1)
    stage.director.play()
    stage.run(16)
    assert stage.asrun()[0][0] == "a"


class Ready:
    """A source that is there at last."""

    is_ready, has_failed, lacks_a_stream = True, False, False


def test_what_comes_too_late_to_be_shown_cuts_nothing(theatre: Any) -> None:
    """P-09: the studio's picture comes long after its time; the film is not cut for something that is left out then."""
    studio = item("studio", 20.0, BEGIN + 10, kind="live", is_cut=True, max_late_seconds=20)
    stage = theatre(item("film", 100.0), studio, item("next", 50.0))
    stage.run(60)
    [waiting] = stage.director.lineup.waiting
    waiting.decoder = Ready()
    stage.run(102)
    assert [(key, seconds, reason) for key, seconds, reason in stage.asrun()] == [
        ("film", 100.0, "played"),
        ("studio", 0.0, "too late"),
    ]
    assert stage.director.slot.item.key == "next"


def test_a_fixed_start_waits_while_the_picture_is_held(theatre: Any) -> None:
    """P-01, P-09: what is paused is on until somebody says play, and as-run says so."""
    stage = theatre(item("film", 100.0), item("news", 5.0, BEGIN + 10, is_cut=True), item("show", 50.0))
    stage.run(5)
    stage.director.pause()
    stage.run(20)
    assert stage.director.slot.item.key == "film"
    assert stage.asrun() == []
    stage.director.play()
    stage.run(21)
    assert stage.director.slot.item.key == "news"
    assert [(key, reason) for key, _, reason in stage.asrun()] == [("film", "cut")]


def test_a_list_of_which_nothing_can_be_played_says_since_when(theatre: Any) -> None:
    """P-09: also behind a filler somebody must know."""
    stage = theatre(missing("a"), missing("b"))
    stage.run(60)
    assert stage.director.status(stage.now).list_failed_seconds > 20
    stage.director.load(Rundown("2", (item("good", 50.0),), False, None), stage.now)
    stage.run(62)
    assert stage.director.status(stage.now).list_failed_seconds == 0


def test_frames_that_are_lost_again_and_again_are_told_of_until_it_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """P-03: an encoder that cannot keep up is not healthy."""
    now = 1000.0
    monkeypatch.setattr("worker.playout.main_loop.time.monotonic", lambda: now)
    stage = object.__new__(Stage)
    stage.dropped, stage._dropped_at, stage._dropping_since = 0, -1e9, -1e9
    assert stage._dropping_seconds() == 0
    for _ in range(10):
        stage._note_drop()
        now += 3
    assert (stage.dropped, stage._dropping_seconds()) == (10, 27.0)
    now += 20
    assert stage._dropping_seconds() == 0
