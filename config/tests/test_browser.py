"""A real browser on a real `manage.py up`: log in, start the demo recorder, watch the picture, stop it, and more."""

import os
import re
import shutil
import signal
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from config.tests.test_up import end_leftovers
from testing.airlock import Airlock
from testing.media import decode
from testing.waiting import wait_until

pytestmark = [pytest.mark.browser]

ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
ARGUMENTS += ["--disable-component-update", "--disable-sync"]
PAGES = [
    "",
    "scheduling/recorder/",
    "scheduling/recorder/add/",
    "scheduling/recorder/1/change/",
    "scheduling/schedule/",
    "scheduling/schedule/add/",
    "scheduling/schedule/1/change/",
    "scheduling/booking/",
    "scheduling/booking/?when=all",
    "scheduling/booking/add/",
    "scheduling/booking/1/change/",
    "scheduling/calendarfeed/add/",
    "tonight/",
    "punctuality/",
    "import-calendar/",
    "jobs/job/",
    "jobs/job/1/change/",
    "jobs/1/backfill/",
    "jobs/run/",
    "jobs/run/1/change/",
    "jobs/jobworker/",
    "jobs/scheduler/",
    "playout/channel/",
    "playout/channel/add/",
    "playout/channel/1/change/",
    "playout/playlist/",
    "playout/playlist/1/change/",
    "playout/asrunentry/",
    "import-playlist/",
    "assets/asset/",
    "assets/asset/1/change/",
    "assets/import/",
    "import-media/",
    "what-goes/",
    "assets/destination/add/",
    "assets/watchfolder/add/",
    "assets/retentionrule/add/",
    "assets/delivery/",
    "nodes/node/",
    "nodes/node/1/change/",
    "nodes/workload/",
    "station/alert/",
    "station/alertroute/add/",
    "station/project/1/change/",
    "station/auditentry/",
    "auth/user/",
    "auth/group/",
]


# Long, for a busy machine; what appears early costs no time.
WAIT_MS = 90_000
# On the dark phone only the colours are checked again: nothing else differs.
WHAT_DIFFERS = {"runOnly": {"type": "rule", "values": ["color-contrast"]}}


@pytest.fixture(scope="module")
def airlock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Airlock]:
    airlock = Airlock(tmp_path_factory.mktemp("browser") / "data")
    airlock.start()
    yield airlock
    airlock.stop(signal.SIGTERM)
    end_leftovers(airlock.data_dir)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        if os.environ.get("CI") == "true":
            pytest.fail("CI=true requires Chromium (.ci/install installs it)")
        pytest.skip("no Chromium on this machine")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def logged_in(airlock: Airlock, chromium: Any) -> Any:
    """The cookies of a user who logged in on the login page."""
    context = chromium.new_context()
    context.set_default_timeout(WAIT_MS)
    page = context.new_page()
    page.goto(airlock.url)
    page.fill("[name=username]", "admin")
    page.fill("[name=password]", airlock.password())
    page.click("[type=submit]")
    page.wait_for_url("**/admin/")
    state = context.storage_state()
    context.close()
    return state


@pytest.fixture
def page(chromium: Any, logged_in: Any) -> Iterator[Any]:
    context = chromium.new_context(storage_state=logged_in, viewport={"width": 1360, "height": 900})
    context.set_default_timeout(WAIT_MS)
    page = context.new_page()
    page.troubles = []
    page.on("pageerror", lambda error: page.troubles.append(str(error)))
    page.on("console", lambda message: page.troubles.append(message.text) if message.type == "error" else None)
    yield page
    assert page.troubles == []
    context.close()


def test_start_watch_and_stop_the_demo_recorder(airlock: Airlock, page: Any) -> None:
    page.goto(f"{airlock.url}admin/scheduling/recorder/1/change/")
    page.locator('text="Start"').first.click()
    page.get_by_role("button", name="Start", exact=True).last.dblclick()
    page.get_by_text("is recording on local (first frame after").wait_for()
    assert page.get_by_text("Not started.").count() == 0, "a double click starts it once"

    page.locator(".airlock-badge-yellow", has_text="recording").wait_for()
    still = page.locator("img.airlock-still")
    wait_until(lambda: "/bookings/" in (still.get_attribute("src") or ""), 30, "a picture is there")
    first = still.get_attribute("src")
    wait_until(lambda: still.get_attribute("src") != first, 10, "the picture moves on")
    assert still.evaluate("image => image.naturalWidth") == 320

    page.goto(f"{airlock.url}admin/scheduling/recorder/1/change/")
    page.locator('text="Stop"').first.click()
    page.get_by_role("button", name="Stop", exact=True).last.click()
    page.get_by_text("Stopped. Demo test pattern by hand: completed").wait_for()

    [path] = airlock.data_dir.glob("media/**/*pattern*.ts")
    assert decode(path) > 25
    page.get_by_role("link", name=re.compile(r"^Booking \d+$")).click()
    page.get_by_text("stopping → completed").wait_for()


def at(page: Any, name: str, moment: datetime) -> None:
    """Type a date and time into the two fields of a form, in house time."""
    local = moment.astimezone(ZoneInfo("Europe/Berlin"))
    page.fill(f"[name={name}_0]", f"{local:%Y-%m-%d}")
    page.fill(f"[name={name}_1]", f"{local:%H:%M:%S}")


def press(page: Any, name: str, submit: str) -> None:
    """Press a button of the page, then the one of its dialog."""
    page.locator(f'text="{name}"').first.click()
    page.get_by_role("button", name=submit, exact=True).last.click()


def test_book_clash_take_the_offered_slot_watch_it_record_extend_and_stop(airlock: Airlock, page: Any) -> None:
    """R-12, R-13: everything an operator does with a booking."""
    add = f"{airlock.url}admin/scheduling/booking/add/"
    now = datetime.now(UTC).replace(microsecond=0)
    first_ends = now + timedelta(seconds=65)
    page.goto(add)
    page.select_option("[name=recorder]", label="Demo test pattern")
    page.fill("[name=title]", "Morning show")
    at(page, "starts_at", now + timedelta(seconds=60))
    at(page, "ends_at", first_ends)
    page.locator("[name=_save]").dblclick()  # is saved once, so it does not clash with itself
    page.get_by_text("was added successfully").wait_for()

    page.goto(add)
    page.select_option("[name=recorder]", label="Demo test pattern")
    page.fill("[name=title]", "Late show")
    at(page, "starts_at", now + timedelta(seconds=62))
    at(page, "ends_at", now + timedelta(seconds=62, hours=1))
    page.locator("[name=_save]").click()
    page.get_by_text("Demo test pattern is taken by “Morning show”").wait_for()
    assert page.get_by_role("link", name=re.compile("See booking")).count() == 1
    page.get_by_role("link", name=re.compile("Book 2")).click()
    page.wait_for_url("**/booking/add/?*")
    assert page.input_value("[name=title]") == "Late show"
    page.locator("[name=_save]").click()
    page.get_by_text("was added successfully").wait_for()

    page.get_by_role("link", name="Late show").first.click()

    def is_recording() -> bool:
        page.reload()
        return page.locator(".airlock-badge-yellow", has_text="REC").count() > 0

    wait_until(is_recording, 60, "the second show records by itself", pause=1.0)
    page.get_by_text("armed → starting").wait_for()

    press(page, "+15 min", "Extend")
    page.get_by_text(re.compile(r"Late show now ends \S+")).wait_for()
    page.get_by_text(re.compile("extended from")).wait_for()
    press(page, "Stop", "Stop")
    page.get_by_text("Stopped. Late show: completed").wait_for()
    page.get_by_text("stopping → completed").wait_for()


def test_the_schedule_form_shows_a_preview_while_typing(airlock: Airlock, page: Any) -> None:
    """The next ten windows and the days of a clock change, before anything is saved."""
    page.goto(f"{airlock.url}admin/scheduling/schedule/add/")
    page.fill("[name=name]", "Night")
    page.select_option("[name=recorder]", label="Demo test pattern")
    page.fill("[name=first_on]", "2026-01-01")
    page.fill("[name=start_time]", "02:30")
    page.fill("[name=length]", "1:00:00")
    page.locator("[name=length]").blur()
    page.get_by_text("Every day at 02:30").wait_for()
    page.get_by_text("the clocks go forward").wait_for()
    page.select_option("[name=kind]", "cron")
    page.fill("[name=cron]", "0 0 31 2 *")
    page.locator("[name=cron]").blur()
    page.get_by_text("No day in the calendar ever matches this.").wait_for()


def test_a_wrong_address_is_explained_beside_its_field_and_nothing_is_stored(airlock: Airlock, page: Any) -> None:
    """S-07."""
    page.goto(f"{airlock.url}admin/scheduling/recorder/add/")
    page.fill("[name=name]", "Broken <script>alert(1)</script>")
    page.select_option("[name=project]", label="Demo")
    page.select_option("[name=source_type]", "srt")
    page.fill("[name=address]", "file:///etc/passwd")
    page.locator("[name=_save]").click()

    page.get_by_text("The address of this type begins with srt://").wait_for()
    page.goto(f"{airlock.url}admin/scheduling/recorder/")
    assert page.get_by_text("Broken").count() == 0


def test_run_a_job_now_and_see_how_it_went(airlock: Airlock, page: Any) -> None:
    """J-19: pause, run by hand while paused, see the result on its page, resume."""
    page.goto(f"{airlock.url}admin/jobs/job/")
    page.get_by_role("link", name="runs.retention").first.click()
    press(page, "Pause", "Pause")
    page.locator(".airlock-badge-amber", has_text="paused").first.wait_for()
    press(page, "Run now", "Run")
    page.wait_for_url("**/admin/jobs/run/*/change/")  # the job's own page may show an earlier success
    page.locator(".airlock-badge-green", has_text="succeeded").first.wait_for()
    page.goto(f"{airlock.url}admin/jobs/jobworker/")
    page.locator(".airlock-badge-green", has_text="working").first.wait_for()
    page.goto(f"{airlock.url}admin/jobs/job/")
    page.get_by_role("link", name="runs.retention").first.click()
    press(page, "Resume", "Resume")
    page.locator(".airlock-badge-green", has_text="active").first.wait_for()


def test_start_the_demo_channel_watch_skip_pause_and_stop(airlock: Airlock, page: Any) -> None:
    """P-01, P-02, P-10: the picture moves, the buttons work, as-run shows what happened."""
    page.goto(f"{airlock.url}admin/playout/playlist/1/change/")
    wait_until(lambda: _has_ready_clips(page), 120, "the demo's clips are made and ready", pause=2)
    page.goto(f"{airlock.url}admin/playout/channel/1/change/")
    press(page, "Start", "Start")
    page.get_by_text("Demo channel is on air from local.").wait_for()
    now = page.locator("[hx-get$='/now/']")
    now.get_by_text("on air", exact=False).first.wait_for()
    still = page.locator("img[id^=channel-still]")
    first = wait_until(lambda: _loaded(still), 40, "a picture", pause=0.5)
    wait_until(lambda: _loaded(still) not in {None, first}, 20, "the picture moves", pause=0.5)
    now.get_by_text("Demo moving pattern").first.wait_for()
    press(page, "Skip", "Skip")
    page.get_by_text("Demo channel skips to the next item.").wait_for()
    now.get_by_text("skipped by hand").first.wait_for()
    now.get_by_text("Demo colour wheel").first.wait_for()
    press(page, "Pause", "Pause")
    now.get_by_text("paused").first.wait_for()
    press(page, "Play", "Play")
    now.get_by_text("playing").first.wait_for()
    page.locator("text=Cue…").first.click()
    page.locator("select[name=item]").select_option(label="Demo universe")
    page.get_by_role("button", name="Cue", exact=True).last.click()
    page.get_by_text("Demo channel has its next item.").wait_for()
    now.locator("div", has_text=re.compile("^Next")).get_by_text("Demo universe").wait_for()
    page.locator("[data-airlock-watch] summary").click()
    video = page.locator("[data-airlock-watch] video")
    wait_until(lambda: video.evaluate("video => video.currentTime") > 1.5, 40, "the preview plays")
    page.locator("[data-airlock-watch] summary").click()
    press(page, "Stop", "Stop")
    page.get_by_text("Demo channel is off air.").wait_for()
    page.get_by_role("link", name="to print").first.click()
    page.get_by_text("skipped by hand").first.wait_for()
    page.goto(f"{airlock.url}admin/playout/asrunentry/")
    page.get_by_text("Demo moving pattern").first.wait_for()
    assert page.troubles == []


def test_sort_a_playlist_by_hand_and_read_its_times(airlock: Airlock, page: Any) -> None:
    """P-01, P-09: times and warnings follow what is typed and dragged; that order is saved."""
    page.set_viewport_size({"width": 1900, "height": 1700})
    page.goto(f"{airlock.url}admin/playout/playlist/1/change/")
    wait_until(lambda: _has_ready_clips(page), 120, "the demo's clips are made and ready", pause=2)
    times = page.locator("table.airlock-table")
    page.fill("#id_items-0-out_seconds", "0:05")
    page.keyboard.press("Tab")
    wait_until(lambda: "45 s" in times.inner_text(), 20, "the length follows what is typed")
    page.fill("#id_items-0-out_seconds", "2")
    page.fill("#id_items-0-in_seconds", "4")
    page.keyboard.press("Tab")
    wait_until(
        lambda: "The out point must be after the in point." in times.inner_text(),
        20,
        "the fault is shown beside the line",
    )
    page.fill("#id_items-0-in_seconds", "0")
    page.fill("#id_items-0-out_seconds", "")
    handle = page.locator("#items-group tbody.original").nth(2).locator("text=drag_indicator").bounding_box()
    target = page.locator("#items-group tbody.original").nth(0).bounding_box()
    page.mouse.move(handle["x"] + 9, handle["y"] + 9)
    page.mouse.down()
    for step in range(1, 13):
        page.mouse.move(handle["x"] + 9, handle["y"] + (target["y"] + 20 - handle["y"]) * step / 12, steps=4)
    page.mouse.up()
    order = ["Demo universe", "Demo moving pattern", "Demo colour wheel"]
    wait_until(lambda: _titles(times) == order, 20, "the times follow the new order")
    page.get_by_role("button", name="Save and continue editing").click()
    page.get_by_text("was changed successfully").wait_for()
    assert _titles(page.locator("table.airlock-table")) == order


def test_insert_a_clip_that_was_not_planned(airlock: Airlock, page: Any) -> None:
    """P-01: inserted now, it cuts the item on air and is in the list afterwards."""
    page.goto(f"{airlock.url}admin/playout/channel/1/change/")
    press(page, "Start", "Start")
    page.get_by_text("Demo channel is on air from local.").wait_for()
    page.locator("text=Insert…").first.click()
    page.locator("select[name=asset]").select_option(label="Demo colour wheel")
    page.locator("label[for=id_take], input[name=take]").last.click()
    page.screenshot(path=screenshots() / "insert.png")
    page.get_by_role("button", name="Insert", exact=True).last.click()
    page.get_by_text("Demo channel switches to Demo colour wheel. It was added to").wait_for()
    now = page.locator("[hx-get$='/now/']")
    now.locator("div", has_text=re.compile("^Now")).get_by_text("Demo colour wheel").wait_for()
    press(page, "Stop", "Stop")
    page.get_by_text("Demo channel is off air.").wait_for()


def screenshots() -> Path:
    """The folder for screenshots of the pages."""
    folder = Path(__file__).resolve().parents[2] / ".cache" / "screenshots"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _titles(times: Any) -> list[str]:
    return [row for row in times.locator("tbody td:nth-child(3)").all_inner_texts() if row]


def _has_ready_clips(page: Any) -> bool:
    page.reload()
    text = page.locator("table.airlock-table").inner_text() if page.locator("table.airlock-table").count() else ""
    return text.count("Demo") == 3 and "not ready" not in text


def _loaded(still: Any) -> Any:
    """The address of the image, once it is loaded."""
    return still.evaluate("image => image.naturalWidth > 10 ? image.src : null") if still.count() else None


@pytest.mark.parametrize("width", [390, 1024, 1360])
def test_pages_of_users_roles_and_assets_fit_the_screen_and_show_their_title(
    airlock: Airlock, page: Any, width: int
) -> None:
    """Wide pairs of lists, and many buttons beside the title."""
    page.set_viewport_size({"width": width, "height": 900})
    for path in ("auth/user/1/change/", "auth/group/1/change/", "assets/asset/1/change/"):
        page.goto(f"{airlock.url}admin/{path}")
        overflow = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert overflow <= 0, f"{path} is wider than the screen by {overflow} px"
        if width > 1000:  # a phone shortens it
            assert page.locator("h1").first.evaluate("title => title.scrollWidth <= title.clientWidth"), path


@pytest.mark.parametrize(("scheme", "width"), [("light", 1360), ("dark", 390), ("light", 1024)])
def test_no_page_has_an_accessibility_violation_or_a_console_error(
    airlock: Airlock, chromium: Any, logged_in: Any, scheme: str, width: int, tmp_path: Path
) -> None:
    """Every page, on a desktop, a phone and a small window; screenshots are kept under .cache/screenshots."""
    from axe_playwright_python.sync_playwright import Axe

    shots = screenshots()
    context = chromium.new_context(
        storage_state=logged_in, viewport={"width": width, "height": 900}, color_scheme=scheme
    )
    context.set_default_timeout(WAIT_MS)
    page = context.new_page()
    troubles: list[str] = []
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("console", lambda message: troubles.append(message.text) if message.type == "error" else None)
    found: dict[str, list[str]] = {}
    for path in PAGES:
        page.goto(f"{airlock.url}admin/{path}")
        name = re.sub(r"[^a-z0-9]+", "-", path).strip("-") or "index"
        page.screenshot(path=shots / f"{name}-{scheme}-{width}.png")
        overflow = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert overflow <= 0, f"{path} is wider than the screen by {overflow} px"
        result = Axe().run(page) if width > 1100 else Axe().run(page, options=WHAT_DIFFERS)
        serious = [entry for entry in result.response["violations"] if entry["impact"] in {"serious", "critical"}]
        if serious:
            found[path] = [f"{entry['id']}: {entry['nodes'][0]['html'][:120]}" for entry in serious]
    context.close()
    assert troubles == []
    assert found == {}
