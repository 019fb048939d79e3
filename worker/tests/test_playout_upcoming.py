"""Which item comes next: inserts, skips, moves, pauses and lists that cannot be played."""

from typing import Any

import pytest

from testing.directing import BEGIN, item, missing
from worker.playout.loaded_config import Resume, Rundown


def test_an_item_inserted_after_the_item_on_air_is_played_next(simulate: Any) -> None:
    """P-09: although the next three items were already planned. An open slot among them stays open."""
    a, b, c, d = (item(key) for key in "abcd")
    channel = simulate(a, b, c, d)
    channel.run(3)
    announced = channel.director.lineup.upcoming[0]
    channel.load(a, item("x", 2.0), b, c, d)
    assert channel.director.lineup.upcoming[1] is announced
    channel.run(23)
    assert channel.asrun() == [("a", 10.0, "played"), ("x", 2.0, "played"), ("b", 10.0, "played")]


def test_a_skip_waits_until_the_next_item_can_be_shown(simulate: Any) -> None:
    """P-01: no slate between the two items."""
    channel = simulate(item("a", 30.0), item("slow", 10.0, kind="growing"), item("b", 30.0))
    channel.run(3)
    channel.director.skip(channel.now)
    assert channel.director.lineup.upcoming[0] in channel.director.wishes(channel.now), (
        "the next item is opened, however far away it was"
    )
    channel.run(7)
    assert channel.director.slot.item.key == "a", "the next item is still being opened"
    channel.director.lineup.upcoming[0].failure = "it cannot be opened"
    channel.run(8)
    assert channel.asrun() == [("a", pytest.approx(7.0, abs=0.3), "skipped"), ("slow", 0.0, "bad")]
    assert channel.director.slot.item.key == "b"


def test_a_skip_waits_five_seconds_at_most_and_does_not_skip_twice(simulate: Any) -> None:
    """P-01: an item that ended by itself while the skip waited is not skipped again."""
    channel = simulate(item("a", 30.0), item("slow", 10.0, kind="growing"), item("b", 30.0))
    channel.run(3)
    channel.director.skip(channel.now)
    channel.run(9)
    assert channel.asrun()[0] == ("a", pytest.approx(8.0, abs=0.3), "skipped")

    channel = simulate(item("a", 5.0), item("slow", 10.0, kind="growing"), item("b", 30.0))
    channel.run(3)
    channel.director.skip(channel.now)
    channel.run(20)
    assert [(key, reason) for key, _, reason in channel.asrun()] == [("a", "played"), ("slow", "bad")]
    assert channel.director.slot.item.key == "b"


def test_an_item_moved_up_is_played_earlier(simulate: Any) -> None:
    """P-01: for example by drag and drop in the editor."""
    a, b, c, d = (item(key) for key in "abcd")
    channel = simulate(a, b, c, d)
    channel.run(3)
    channel.load(a, d, c, b)
    channel.run(41)
    assert [key for key, _, _ in channel.asrun()] == ["a", "d", "c", "b"]


def test_an_item_deleted_on_air_plays_to_its_end_and_the_next_items_follow(simulate: Any) -> None:
    a, b, c = (item(key) for key in "abc")
    channel = simulate(a, b, c)
    channel.run(3)
    channel.load(b, c)
    channel.run(31)
    assert [key for key, _, _ in channel.asrun()] == ["a", "b", "c"]


def test_a_list_without_a_playable_item_writes_each_item_to_as_run_once(simulate: Any) -> None:
    """P-10: an hour without the disk must not write ten thousand as-run entries."""
    channel = simulate(*(missing(str(number)) for number in range(20)), is_loop=True)
    channel.run(600)
    assert len(channel.asrun()) == 20
    channel.load(item("good", 5.0), missing("1"), is_loop=True)
    channel.run(612)
    assert next(key for key, _, reason in channel.asrun() if reason == "played") == "good"


def test_a_paused_channel_holds_its_picture_after_a_failover(simulate: Any) -> None:
    """P-07: it shows neither the slate nor a later frame."""
    resume = Resume(key="a", offset_seconds=4.0, at=BEGIN - 60, is_paused=True)
    channel = simulate(item("a"), item("b"), resume=resume)
    channel.run(8)
    assert channel.director.state() == "paused"
    assert (channel.director.slot.item.key, channel.director.slot.frames) == ("a", 1)
    channel.director.play()
    channel.run(16)
    assert channel.asrun()[0][0] == "a"


def test_a_list_without_a_playable_item_reports_since_when(simulate: Any) -> None:
    """P-09: it must be noticed even while the filler plays."""
    channel = simulate(missing("a"), missing("b"))
    channel.run(60)
    assert channel.director.status(channel.now).list_failed_seconds > 20
    channel.director.load(Rundown("2", (item("good", 50.0),), False, None), channel.now)
    channel.run(62)
    assert channel.director.status(channel.now).list_failed_seconds == 0
