"""The judgement of `make chaos` finds each kind of fault (R-02, R-04)."""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from testing.chaos.verdict import BacklogFacts, BookingFacts, ChannelFacts, Disturbance, Facts, Span, judge

START = datetime(2026, 3, 1, 20, 15, tzinfo=UTC)


def span(begin: float, end: float) -> Span:
    return Span(START + timedelta(seconds=begin), START + timedelta(seconds=end))


def disturbance(begin: float, end: float, owner: str = "") -> Disturbance:
    when = span(begin, end)
    return Disturbance(when.begin, when.end, "no leader", owner)


GOOD = BookingFacts("booking:1", "completed", "show 1", span(0, 20), held_seconds=19.6, writing=(span(0.8, 20.1),))
CHANNEL = ChannelFacts("on_air", (span(0, 30), span(34, 60)), off_air_seconds=(4.0,), quiet_seconds=0.1)
BACKLOG = BacklogFacts(1000, Counter(missed=1000), (("1000 bookings were missed", 1000),))


def faults(facts: Facts) -> dict[str, list[str]]:
    return {kind: stories for kind, stories in judge(facts).items() if stories}


def of_booking(*disturbances: Disturbance, **changes: object) -> dict[str, list[str]]:
    return faults(Facts([replace(GOOD, **changes)], disturbances=disturbances))  # type: ignore[arg-type]


def begun_after(seconds: float) -> dict[str, object]:
    return {"writing": (span(seconds, 20.1),), "held_seconds": 20 - seconds, "state": "partial"}


def test_a_good_run_has_no_fault() -> None:
    assert faults(Facts([GOOD], CHANNEL, BACKLOG)) == {}


def test_a_missed_or_failed_booking_is_lost() -> None:
    for state in ("missed", "failed", "skipped", "cancelled"):
        assert of_booking(state=state) == {"lost": ["show 1"]}


def test_a_completed_booking_without_a_frame_is_lost() -> None:
    assert of_booking(held_seconds=0.0) == {"lost": ["show 1"]}


def test_a_completed_booking_that_misses_ten_seconds_is_untrue() -> None:
    assert of_booking(held_seconds=10.0) == {"untrue": ["10.0 s are missing: show 1"]}
    assert of_booking(held_seconds=10.0, state="partial") == {}


def test_a_booking_that_is_not_over_is_stuck() -> None:
    assert of_booking(is_over=False, state="stopping") == {"stuck": ["show 1"]}


def test_a_media_worker_that_still_runs_is_stuck() -> None:
    assert faults(Facts([GOOD], leftovers=["airlock-1-booking-1-g1"])) == {"stuck": ["airlock-1-booking-1-g1"]}


def test_two_media_workers_or_two_growing_files_are_doubled() -> None:
    assert faults(Facts([GOOD], doubled={"booking:1"})) == {"doubled": ["booking:1"]}
    assert of_booking(writing=(span(0.8, 9), span(5, 20))) == {"doubled": ["4.0 s: show 1"]}
    assert of_booking(writing=(span(0.8, 9), span(9.5, 20))) == {}


def test_a_late_start_without_a_disturbance_is_late() -> None:
    assert of_booking(**begun_after(8.7)) == {"late": ["8.7 s late, 2.0 s allowed: show 1"]}


def test_a_start_right_after_a_disturbance_is_not_late() -> None:
    assert of_booking(disturbance(-1, 4), **begun_after(8.7)) == {}
    assert of_booking(disturbance(-1, 2), disturbance(1.5, 4), **begun_after(8.7)) == {}, "two in a row"


def test_a_disturbance_excuses_only_the_starts_it_can_delay() -> None:
    late = {"late": ["8.7 s late, 2.0 s allowed: show 1"]}
    assert of_booking(disturbance(-20, -10), **begun_after(8.7)) == late, "long before"
    assert of_booking(disturbance(7, 8), **begun_after(8.7)) == late, "after it should have begun"
    assert of_booking(disturbance(-1, 1), **begun_after(8.7)) == {"late": ["8.7 s late, 6.0 s allowed: show 1"]}


def test_a_locked_row_excuses_only_its_own_booking() -> None:
    assert of_booking(disturbance(-1, 4, "booking:1"), **begun_after(8.7)) == {}
    assert "late" in of_booking(disturbance(-1, 4, "booking:2"), **begun_after(8.7))


def test_a_recording_that_was_moved_here_has_no_start_to_judge() -> None:
    assert of_booking(starts_here=False, **begun_after(15)) == {}


def test_a_time_without_a_leader_and_without_a_cause_is_reported() -> None:
    found = faults(Facts(leaderless=[span(0, 22.4)], disturbances=[disturbance(-1, 3)]))
    assert found == {"leaderless": ["no leader for 22.4 s until 20:15:22"]}
    assert faults(Facts(leaderless=[span(0, 7)], disturbances=[disturbance(-1, 3)])) == {}
    assert "leaderless" in faults(Facts(leaderless=[span(0, 7)], disturbances=[disturbance(-1, 3, "booking:1")]))


def test_a_backlog_with_many_alerts_or_none_is_unsummarised() -> None:
    for alerts in ((), (("999 bookings were missed", 999), ("old was missed", 1)), (("12 were missed", 12),)):
        found = faults(Facts(backlog=replace(BACKLOG, alerts=alerts)))
        assert list(found) == ["unsummarised"]
        assert found["unsummarised"][0].startswith(f"{len(alerts)} alerts instead of one for 1000 bookings")


def test_a_backlog_that_was_not_given_up_is_reported() -> None:
    found = faults(Facts(backlog=replace(BACKLOG, states=Counter(missed=999, planned=1))))
    assert found == {"unsummarised": ["of 1000 bookings whose window had passed: {'missed': 999, 'planned': 1}"]}


def test_two_senders_for_more_than_two_seconds_are_reported() -> None:
    assert faults(Facts(channel=replace(CHANNEL, senders=(span(0, 30), span(28.5, 60))))) == {}
    found = faults(Facts(channel=replace(CHANNEL, senders=(span(0, 30), span(27, 60)))))
    assert found == {"channel": ["two senders for 3.0 s"]}


def test_a_channel_that_is_off_air_is_reported() -> None:
    assert faults(Facts(channel=replace(CHANNEL, state="error"))) == {"channel": ["error at the end"]}
    assert faults(Facts(channel=replace(CHANNEL, quiet_seconds=9.0))) == {"channel": ["no packet in the last 9.0 s"]}
    assert faults(Facts(channel=replace(CHANNEL, off_air_seconds=(31.0,)))) == {"channel": ["off air for 31.0 s"]}
