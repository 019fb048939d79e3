"""A list that is replaced on air, and the change to the list of the next day."""

from typing import Any

import pytest

from testing.directing import BEGIN, item, missing
from worker.playout.loaded_config import Rundown


def test_the_list_of_the_next_day_starts_on_the_second_without_airlock(simulate: Any) -> None:
    """P-13, P-09: the following list was sent ahead; at its time it cuts the list for any day."""
    tomorrow = Rundown("t", (item("first"), item("second", 100.0)), begins_at=BEGIN + 20)
    channel = simulate(item("endless", None), is_loop=True, following=tomorrow, following_at=BEGIN + 20)
    channel.run(35)
    assert channel.asrun() == [("endless", 20.0, "cut"), ("first", 10.0, "played")]
    assert channel.director.slot.item.key == "second"
    assert channel.director.status(channel.now).rundown == "t"


def test_the_open_first_item_of_a_deleted_following_list_is_closed(simulate: Any) -> None:
    """P-09: tomorrow's list is deleted four seconds before it begins, when its first clip is open already."""
    tomorrow = Rundown("t", (item("first"),), begins_at=BEGIN + 20)
    endless = item("endless", None)
    channel = simulate(endless, is_loop=True, following=tomorrow, following_at=BEGIN + 20)
    channel.run(18)
    opened = [slot for slot in channel.director.wishes(channel.now) if slot.item.key == "first"]
    assert len(opened) == 1
    channel.load(endless, is_loop=True)
    assert opened[0] in channel.director.take_finished()
    channel.run(40)
    assert channel.director.slot.item.key == "endless"


def test_a_list_for_a_day_that_arrives_late_is_joined_by_the_clock(simulate: Any) -> None:
    """P-07: it belongs to that time of day, whatever is on air."""
    channel = simulate(item("endless", None), is_loop=True)
    channel.run(25)
    channel.load(item("first"), item("second", 100.0), begins_at=BEGIN + 10)
    channel.run(27)
    assert channel.asrun() == [("endless", pytest.approx(25.0, abs=1.1), "cut")]
    assert channel.director.slot.item.key == "second"
    assert channel.director.slot.offset_seconds == pytest.approx(5.8, abs=0.3)


def test_a_completely_replaced_list_continues_by_the_clock_after_the_item_on_air(simulate: Any) -> None:
    """P-12: an import replaces the list that is on air."""
    channel = simulate(item("film", 30.0), begins_at=BEGIN)
    channel.run(10)
    channel.load(item("1", 20.0), item("2", 20.0), item("3", 20.0), begins_at=BEGIN)
    channel.run(41)
    film, second = channel.asrun()
    assert film == ("film", pytest.approx(30.0, abs=1.0), "played")
    assert second == ("2", pytest.approx(10.0, abs=1.2), "played")


def test_a_waiting_item_keeps_its_place_when_the_list_gets_shorter(simulate: Any) -> None:
    """P-09: B is deleted while F waits for the end of A; after F comes G."""
    a, f = item("a", 30.0), item("f", 5.0, BEGIN + 10, is_cut=False)
    channel = simulate(a, item("b"), f, item("g", 5.0), item("h", 5.0))
    channel.run(15)
    channel.load(a, f, item("g", 5.0), item("h", 5.0))
    channel.run(46)
    assert [key for key, _, _ in channel.asrun()] == ["a", "f", "g", "h"]


def test_a_bad_first_clip_does_not_stop_the_list_of_the_next_day(simulate: Any) -> None:
    """P-09, P-13: a loop is on air and the first clip of tomorrow's list is missing: the second one cuts."""
    tomorrow = Rundown("t", (missing("first"), item("second", 10.0), item("third", 100.0)), begins_at=BEGIN + 20)
    channel = simulate(item("endless", None), is_loop=True, following=tomorrow, following_at=BEGIN + 20)
    channel.run(35)
    assert channel.asrun() == [
        ("endless", pytest.approx(20.0, abs=1.0), "cut"),
        ("first", 0.0, "bad"),
        ("second", 10.0, "played"),
    ]
    assert channel.director.slot.item.key == "third"


def test_a_bad_clip_at_the_joined_position_is_skipped(simulate: Any) -> None:
    """P-07, P-09: a list gets today's date, and the clip that should be on air now is missing."""
    channel = simulate(item("endless", None), is_loop=True)
    channel.run(15)
    channel.load(item("first"), missing("now"), item("then", 100.0), begins_at=BEGIN)
    channel.run(18)
    assert channel.director.slot.item.key == "then"


def test_a_list_whose_first_item_has_a_fixed_time_begins_at_that_time(simulate: Any) -> None:
    """P-07, P-09: until 08:00 the filler plays, however early the channel starts; then the whole item."""
    channel = simulate(item("early", 100.0, BEGIN + 30), item("b"), begins_at=BEGIN - 60)
    channel.run(29)
    assert channel.director.slot is None
    channel.run(32)
    assert channel.director.slot.item.key == "early"
    assert channel.director.slot.offset_seconds == 0.0


def test_a_clip_that_is_added_behind_a_list_that_is_over_is_played_at_once(simulate: Any) -> None:
    """P-01: the filler is on, and the next item is the first one of the next day."""
    tonight, tomorrow = item("tonight"), item("tomorrow", 10.0, BEGIN + 100)
    channel = simulate(tonight, tomorrow, begins_at=BEGIN)
    channel.run(15)
    assert channel.director.slot is None
    channel.load(tonight, item("added", 5.0), tomorrow, begins_at=BEGIN)
    channel.run(30)
    assert [key for key, _, _ in channel.asrun()] == ["tonight", "added"]


@pytest.mark.parametrize("before", [("tonight",), ()])
def test_a_clip_that_is_added_after_a_restart_on_filler_is_played_at_once(simulate: Any, before: Any) -> None:
    """P-01, P-07: the new media worker has played nothing yet; the first item of the next day waits for its time."""
    known = [item(key) for key in before]
    tomorrow = item("tomorrow", 10.0, BEGIN + 100)
    channel = simulate(*known, tomorrow, begins_at=BEGIN - 50)
    channel.run(5)
    assert channel.director.slot is None
    channel.load(*known, item("added", 5.0), item("another", 4.0), tomorrow, begins_at=BEGIN - 50)
    channel.run(30)
    assert [key for key, _, _ in channel.asrun()] == ["added", "another"]
    channel.run(105)
    assert channel.director.slot.item.key == "tomorrow"
