"""Items with a fixed start time, and recordings in several parts."""

from typing import Any

import pytest

from testing.directing import BEGIN, item, missing
from worker.playout.loaded_config import Resume


def test_a_fixed_start_is_opened_once_and_leaves_nothing_behind(simulate: Any) -> None:
    """A slot that is not discarded would leave an ffmpeg running forever."""
    channel = simulate(item("a", 100.0), item("news", 5.0, BEGIN + 10), item("c"))
    channel.run(12)
    assert channel.asrun() == [("a", 10.0, "cut")]
    assert channel.director.lineup.fixed_starts.opened == {}
    wanted = [slot.item.key for slot in channel.director.wishes(channel.now)]
    assert wanted.count("news") == 1


def test_a_bad_fixed_start_does_not_delay_the_next_one(simulate: Any) -> None:
    """P-09: an open-ended source is on air; item 10 is missing, item 20 waits for its end, item 30 cuts."""
    live = item("live", None)
    channel = simulate(
        live, missing("10", BEGIN + 10), item("20", 5.0, BEGIN + 20, is_cut=False), item("30", 5.0, BEGIN + 30)
    )
    channel.run(36)
    assert channel.asrun() == [
        ("live", 30.0, "cut"),
        ("10", 0.0, "bad"),
        ("20", 0.0, "too late"),
        ("30", 5.0, "played"),
    ]


def test_a_fixed_start_played_early_is_not_played_again(simulate: Any) -> None:
    """P-09: in a list for a day, the news are cued early; at their time the show after them continues."""
    channel = simulate(item("a", 100.0), item("news", 5.0, BEGIN + 30), item("show", 100.0))
    channel.run(10)
    assert channel.director.cue("news")
    channel.director.skip(channel.now)
    channel.run(60)
    assert channel.asrun() == [("a", 10.0, "skipped"), ("news", 5.0, "played")]
    assert channel.director.slot.item.key == "show"


def test_a_fixed_item_that_is_joined_in_progress_is_not_too_late(simulate: Any) -> None:
    """P-07, P-09: after a failover the film of 20:00 continues, whatever its allowed lateness."""
    film = item("film", 100.0, BEGIN - 50, max_late_seconds=5)
    channel = simulate(film, item("b"), begins_at=BEGIN - 50)
    channel.run(1)
    assert channel.director.slot.item.key == "film"
    assert channel.director.slot.offset_seconds == pytest.approx(50.8)


PARTS = (
    item("a"),
    item("film", 10.0, BEGIN + 25),
    item("film.2", part_of="film"),
    item("film.3", part_of="film"),
    item("z"),
)


def test_a_recording_in_parts_is_skipped_as_a_whole(simulate: Any) -> None:
    """P-09."""
    channel = simulate(*PARTS)
    channel.run(30)
    channel.director.skip(channel.now)
    channel.run(41)
    assert [(key, reason) for key, _, reason in channel.asrun()] == [
        ("a", "played"),
        ("film", "skipped"),
        ("z", "played"),
    ]


def test_a_loop_plays_the_parts_of_a_fixed_item_only_together(simulate: Any) -> None:
    channel = simulate(*PARTS, is_loop=True)
    channel.run(56)
    assert [key for key, _, _ in channel.asrun()] == ["a", "z", "a", "film", "film.2", "film.3"]


def test_all_parts_of_an_item_that_is_too_late_are_skipped(simulate: Any) -> None:
    late = (item("long", 50.0), item("film", 10.0, BEGIN + 10, is_cut=False, max_late_seconds=5))
    channel = simulate(*late, item("film.2", part_of="film"), item("z", 100.0))
    channel.run(52)
    assert [(key, reason) for key, _, reason in channel.asrun()] == [("long", "played"), ("film", "too late")]
    assert channel.director.slot.item.key == "z"


def test_a_soft_start_that_waited_when_the_media_worker_died_is_played(simulate: Any) -> None:
    """P-07, P-09: a loop does not reach it in any other way."""
    resume = Resume(key="film", offset_seconds=40.0, at=BEGIN, is_paused=False)
    soft = item("soft", 10.0, BEGIN - 20, is_cut=False)
    channel = simulate(item("film", 60.0), soft, item("c"), is_loop=True, resume=resume)
    channel.run(40)
    assert [key for key, _, _ in channel.asrun()][:2] == ["film", "soft"]


class Ready:
    """A decoder that is ready now."""

    is_ready, has_failed, lacks_a_stream = True, False, False


def test_a_source_that_is_ready_too_late_cuts_nothing(simulate: Any) -> None:
    """P-09: the studio's picture comes long after its time; the film is not cut for an item that is skipped then."""
    studio = item("studio", 20.0, BEGIN + 10, kind="live", is_cut=True, max_late_seconds=20)
    channel = simulate(item("film", 100.0), studio, item("next", 50.0))
    channel.run(60)
    [waiting] = channel.director.lineup.waiting
    waiting.decoder = Ready()
    channel.run(102)
    assert [(key, seconds, reason) for key, seconds, reason in channel.asrun()] == [
        ("film", 100.0, "played"),
        ("studio", 0.0, "too late"),
    ]
    assert channel.director.slot.item.key == "next"


def test_a_fixed_start_waits_while_the_picture_is_held(simulate: Any) -> None:
    """P-01, P-09: a paused item is on air until play, and as-run says so."""
    channel = simulate(item("film", 100.0), item("news", 5.0, BEGIN + 10, is_cut=True), item("show", 50.0))
    channel.run(5)
    channel.director.pause()
    channel.run(20)
    assert channel.director.slot.item.key == "film"
    assert channel.asrun() == []
    channel.director.play()
    channel.run(21)
    assert channel.director.slot.item.key == "news"
    assert [(key, reason) for key, _, reason in channel.asrun()] == [("film", "cut")]
