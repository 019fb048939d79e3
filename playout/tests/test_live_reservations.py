"""Live items reserve the device or port of their source, from their planned start to their planned end (P-15)."""

import threading
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.test import Client
from django.urls import reverse

from nodes.machines.ports import port_of
from nodes.models import Reservation
from playout.admin import playlists as admin_pages
from playout.lists.broadcast_days import begin_of, day_of
from playout.lists.controls import copy
from playout.lists.reservations import ListClash
from playout.models import Channel, ChannelOutput, Playlist, PlaylistItem
from scheduling.bookings.making import BookingRefused, book
from scheduling.models import Recorder
from station.models import ApiToken
from station.tokens import hash_of
from testing.live_items import at, live, make_list, put_on_air, reserved, slate

pytestmark = [pytest.mark.django_db, pytest.mark.database]

DAY, HOUR, MINUTE = timedelta(days=1), timedelta(hours=1), timedelta(minutes=1)


@pytest.fixture
def channel(deck_channel: Channel) -> Channel:
    return deck_channel


def test_a_list_for_a_day_reserves_the_device_of_its_live_item(
    channel: Channel, deck: Recorder, now: datetime, tomorrow: datetime
) -> None:
    """P-15: from planned start to planned end; a booking then is refused and names the item, before and after not."""
    make_list(channel, tomorrow, now, slate(600), live(deck, 1800), slate(60))

    begins = tomorrow + 10 * MINUTE
    assert reserved(channel) == [("DeckLink device 0 on n1", begins, begins + 30 * MINUTE)]
    with pytest.raises(BookingRefused, match=r"held by channel One \(live item “Deck”\) from .* until") as refusal:
        book(deck, begins + 29 * MINUTE, begins + HOUR, now=now)
    assert refusal.value.winner is None
    book(deck, begins - 5 * MINUTE, begins, now=now)
    book(deck, begins + 30 * MINUTE, begins + HOUR, now=now)


def test_a_live_item_from_a_source_without_a_device_reserves_nothing(
    channel: Channel, project: Any, now: datetime, tomorrow: datetime
) -> None:
    """P-15: several may connect to a caller's address, a multicast group or the test pattern."""
    source = Recorder.objects.create(name="Far", project=project, source_type="srt", address="srt://1.2.3.4:9000")
    make_list(channel, tomorrow, now, live(source))
    assert reserved(channel) == []


@pytest.mark.parametrize(
    ("length", "next_at", "until"),
    [(None, 5, 5), (None, None, 24), (10 * 3600, 5, 5), (30 * 3600, None, 24)],
    ids=["no length, then a fixed start", "no length", "cut by a fixed start", "into the next day"],
)
def test_an_item_without_a_known_end_is_reserved_up_to_the_next_fixed_start_or_the_end_of_the_day(
    length: float | None, next_at: int | None, until: int, channel: Channel, deck: Recorder, now: datetime,
    tomorrow: datetime,
) -> None:  # fmt: skip
    """P-15: every reservation has an end."""
    later = begin_of(day_of(now) + 3 * DAY)
    fixed = [{**slate(60), **at(later + next_at * HOUR)}] if next_at else []
    make_list(channel, later, now, live(deck, length), *fixed)
    ends = begin_of(day_of(later) + DAY) if until == 24 else later + until * HOUR
    assert reserved(channel) == [("DeckLink device 0 on n1", later, ends)]


def submit(client: Client, playlist: Playlist, **changes: Any) -> Any:
    """Save the form of a list with one live item, with these changes."""
    item = playlist.items.get()
    values = {"name": playlist.name, "project": playlist.project_id, "channel": playlist.channel_id, "on": playlist.on}
    values |= {"items-TOTAL_FORMS": 1, "items-INITIAL_FORMS": 1, "items-0-id": item.pk, "items-0-playlist": playlist.pk}
    values |= {"items-0-kind": "live", "items-0-source": item.source_id, "items-0-in_seconds": "0"}
    values |= {"items-0-length_seconds": item.length_seconds, "items-0-start": "cut", "items-0-position": 0}
    values |= {f"items-0-{name}": value for name, value in changes.items() if name != "name"}
    values |= {"name": changes.get("name", playlist.name)}
    return client.post(reverse("admin:playout_playlist_change", args=[playlist.pk]), values)


def test_a_list_that_would_clash_with_a_booking_is_refused_beside_the_item(
    channel: Channel, deck: Recorder, now: datetime, tomorrow: datetime, admin_client: Client
) -> None:
    """P-15: the sentence names who holds the device from when to when; nothing is saved or reserved."""
    playlist = make_list(channel, tomorrow, now, live(deck, 600))
    booking = book(deck, tomorrow + HOUR, tomorrow + 2 * HOUR, now=now, title="Match")

    answer = submit(admin_client, playlist, length_seconds="2:00:00")

    assert answer.status_code == 200
    [formset] = answer.context_data["inline_admin_formsets"]
    [errors] = formset.formset.errors
    assert list(errors) == ["source"]
    assert f"DeckLink device 0 on n1 is held by Deck (booking {booking.pk}) from" in errors["source"][0]
    assert playlist.items.get().length_seconds == 600
    assert reserved(channel) == [("DeckLink device 0 on n1", tomorrow, tomorrow + 10 * MINUTE)]
    assert submit(admin_client, playlist, length_seconds="0:50:00").status_code == 302
    assert reserved(channel) == [("DeckLink device 0 on n1", tomorrow, tomorrow + 50 * MINUTE)]


@pytest.mark.django_db(transaction=True)
def test_a_clash_between_the_check_and_the_saving_shows_the_form_again(
    channel: Channel,
    deck: Recorder,
    now: datetime,
    tomorrow: datetime,
    admin_client: Client,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """P-15: another session books the device after the form was checked and before the list is written."""
    playlist = make_list(channel, tomorrow, now, live(deck, 600))
    original, asked = admin_pages.new_clashes, list[int]()

    def book_elsewhere() -> None:
        book(deck, tomorrow + HOUR, tomorrow + 2 * HOUR, now=now)
        connection.close()

    def checked_too_early(*args: Any) -> Any:
        asked.append(1)
        found = original(*args)
        if len(asked) == 1:
            other = threading.Thread(target=book_elsewhere)
            other.start()
            other.join(30)
        return found

    monkeypatch.setattr(admin_pages, "new_clashes", checked_too_early)
    answer = submit(admin_client, playlist, length_seconds="2:00:00")

    assert (answer.status_code, len(asked)) == (200, 2)
    assert "DeckLink device 0 on n1 is held by Deck (booking" in answer.content.decode()
    assert playlist.items.get().length_seconds == 600


def test_an_edit_that_does_not_cause_the_clash_is_saved(
    channel: Channel, deck: Recorder, now: datetime, tomorrow: datetime, admin_client: Client
) -> None:
    """P-15: a clash that is known already must not keep people from changing the list."""
    playlist = make_list(channel, tomorrow, now, live(deck, 600))
    book(deck, tomorrow + HOUR, tomorrow + 2 * HOUR, now=now)
    PlaylistItem.objects.update(length_seconds=7200)  # times that shifted by themselves

    assert submit(admin_client, playlist, title="Live").status_code == 302

    assert playlist.items.get().title == "Live"


def test_the_api_and_a_copy_are_refused_likewise(
    channel: Channel, deck: Recorder, now: datetime, tomorrow: datetime, admin_user: Any, client: Client
) -> None:
    """P-15: all items are stored, or none; no half list is left."""
    playlist = make_list(channel, tomorrow, now, live(deck, 600))
    later = begin_of(day_of(now) + 4 * DAY)
    booking = book(deck, later, later + HOUR, now=now)
    ApiToken.objects.create(name="t", user=admin_user, token_hash=hash_of("secret"), created_at=now)

    outcome = copy(playlist, by="anna", day=day_of(later))

    assert not outcome.is_done
    assert f"held by Deck (booking {booking.pk})" in outcome.text
    assert Playlist.objects.count() == 1
    near = book(deck, tomorrow + HOUR, tomorrow + 2 * HOUR, now=now)
    answer = client.put(
        f"/api/playlists/{playlist.pk}/items",
        {"items": [{"kind": "live", "source": deck.pk, "length_seconds": 7200}]},
        content_type="application/json",
        headers={"Authorization": "Bearer secret"},
    )
    assert answer.status_code == 409, answer.content
    assert f"held by Deck (booking {near.pk})" in answer.content.decode()
    assert playlist.items.get().length_seconds == 600
    deleted = client.delete(f"/api/playlists/{playlist.pk}", headers={"Authorization": "Bearer secret"})
    assert deleted.status_code == 204
    assert reserved(channel) == []


def test_a_live_item_on_the_channels_own_output_is_refused(
    channel: Channel, deck: Recorder, now: datetime, tomorrow: datetime
) -> None:
    """P-15, R-14: one device cannot send and receive."""
    ChannelOutput.objects.create(channel=channel, type="decklink", address="0")
    put_on_air(channel)
    with pytest.raises(ListClash, match="DeckLink device 0 on n1 is held by channel One from"):
        make_list(channel, tomorrow, now, live(deck, 600))
    assert not Playlist.objects.exists()


def test_the_database_refuses_two_holders_whatever_the_code_does(
    channel: Channel, deck: Recorder, now: datetime, tomorrow: datetime
) -> None:
    """P-15, R-14: the exclusion constraint is the last guard."""
    make_list(channel, tomorrow, now, live(deck, 600))
    assert deck.node is not None
    with pytest.raises(IntegrityError), transaction.atomic():
        Reservation.objects.create(
            port=port_of(deck.node, "decklink", 0), owner="x", holder="x", starts_at=tomorrow, ends_at=tomorrow + MINUTE
        )


@pytest.mark.django_db(transaction=True)
def test_of_a_list_and_a_booking_at_the_same_moment_one_is_refused(
    channel: Channel, deck: Recorder, now: datetime, tomorrow: datetime
) -> None:
    """P-15: in two sessions of PostgreSQL; each of them wins or gets the sentence, and there is one holder."""
    results: dict[str, str] = {}
    ready = threading.Barrier(2)

    def carry_out(name: str, act: Any) -> None:
        try:
            ready.wait(10)
            act()
            results[name] = "done"
        except (ListClash, BookingRefused) as refusal:
            results[name] = str(refusal)
        finally:
            connection.close()

    for number in range(8):
        begins = begin_of(day_of(now) + (number + 1) * DAY)
        acts = {
            "list": lambda begins=begins: make_list(channel, begins, now, live(deck, 600)),
            "booking": lambda begins=begins: book(deck, begins, begins + HOUR, now=now),
        }
        threads = [threading.Thread(target=carry_out, args=pair) for pair in acts.items()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert sorted(results) == ["booking", "list"], results
        assert list(results.values()).count("done") == 1, results
        assert any("DeckLink device 0 on n1" in text for text in results.values()), results
        assert Reservation.objects.standing().overlapping(begins, begins + HOUR).count() == 1
        results.clear()
