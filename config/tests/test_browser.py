"""A person at a real browser: logs in, starts the demo recorder, sees the picture move, stops it. On a real `up`."""

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
    "scheduling/job/",
    "scheduling/job/1/change/",
    "jobs/1/backfill/",
    "scheduling/run/",
    "scheduling/run/1/change/",
    "scheduling/jobworker/",
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
    """The cookies of somebody who came in through the login page."""
    context = chromium.new_context()
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
    page.get_by_role("button", name="Start", exact=True).last.click()
    page.get_by_text("records on local; first frame after").wait_for(timeout=30_000)

    page.locator(".airlock-badge-yellow", has_text="recording").wait_for(timeout=10_000)
    still = page.locator("img.airlock-still")
    wait_until(lambda: "/bookings/" in (still.get_attribute("src") or ""), 30, "a picture is there")
    first = still.get_attribute("src")
    wait_until(lambda: still.get_attribute("src") != first, 10, "the picture moves on")
    assert still.evaluate("image => image.naturalWidth") == 320

    page.goto(f"{airlock.url}admin/scheduling/recorder/1/change/")
    page.locator('text="Stop"').first.click()
    page.get_by_role("button", name="Stop", exact=True).last.click()
    page.get_by_text("Stopped. Demo test pattern by hand: completed").wait_for(timeout=30_000)

    [path] = airlock.data_dir.glob("media/**/*pattern*.ts")
    assert decode(path) > 25
    page.get_by_role("link", name=re.compile(r"^Booking \d+$")).click()
    page.get_by_text("stopping → completed").wait_for()


def at(page: Any, name: str, moment: datetime) -> None:
    """Type a moment into the two fields of a form, in house time."""
    local = moment.astimezone(ZoneInfo("Europe/Berlin"))
    page.fill(f"[name={name}_0]", f"{local:%Y-%m-%d}")
    page.fill(f"[name={name}_1]", f"{local:%H:%M:%S}")


def press(page: Any, name: str, submit: str) -> None:
    """A button of the page, then the one of its dialog."""
    page.locator(f'a:has-text("{name}"), button:has-text("{name}")').first.click()
    page.get_by_role("button", name=submit, exact=True).last.click()


def test_book_clash_take_the_offered_slot_watch_it_record_extend_and_stop(airlock: Airlock, page: Any) -> None:
    """R-12, R-13: the whole way of an operator."""
    add = f"{airlock.url}admin/scheduling/booking/add/"
    now = datetime.now(UTC).replace(microsecond=0)
    first_ends = now + timedelta(seconds=25)
    page.goto(add)
    page.select_option("[name=recorder]", label="Demo test pattern")
    page.fill("[name=title]", "Morning show")
    at(page, "starts_at", now + timedelta(seconds=20))
    at(page, "ends_at", first_ends)
    page.locator("[name=_save]").click()
    page.get_by_text("was added successfully").wait_for()

    page.goto(add)
    page.select_option("[name=recorder]", label="Demo test pattern")
    page.fill("[name=title]", "Late show")
    at(page, "starts_at", now + timedelta(seconds=22))
    at(page, "ends_at", now + timedelta(seconds=22, hours=1))
    page.locator("[name=_save]").click()
    page.get_by_text("Demo test pattern is taken by “Morning show”").wait_for()
    assert page.get_by_role("link", name=re.compile("See booking")).count() == 1
    page.get_by_role("link", name=re.compile("Take 2")).click()
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
    page.get_by_text(re.compile("Late show ends .* now")).wait_for(timeout=15_000)
    page.get_by_text(re.compile("extended from")).wait_for()
    press(page, "Stop", "Stop")
    page.get_by_text("Stopped. Late show: completed").wait_for(timeout=30_000)
    page.get_by_text("stopping → completed").wait_for()


def test_the_schedule_form_answers_while_one_types(airlock: Airlock, page: Any) -> None:
    """The next ten and the change days, before anything is saved."""
    page.goto(f"{airlock.url}admin/scheduling/schedule/add/")
    page.fill("[name=name]", "Night")
    page.select_option("[name=recorder]", label="Demo test pattern")
    page.fill("[name=first_on]", "2026-01-01")
    page.fill("[name=start_time]", "02:30")
    page.fill("[name=length]", "1:00:00")
    page.locator("[name=length]").blur()
    page.get_by_text("Every day at 02:30").wait_for(timeout=10_000)
    page.get_by_text("the clocks go forward").wait_for()
    page.select_option("[name=kind]", "cron")
    page.fill("[name=cron]", "0 0 31 2 *")
    page.locator("[name=cron]").blur()
    page.get_by_text("No day in the calendar ever matches this.").wait_for(timeout=10_000)


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
    """J-19: paused, run by hand all the same, the result on its page, resumed."""
    page.goto(f"{airlock.url}admin/scheduling/job/")
    page.get_by_role("link", name="runs.retention").first.click()
    press(page, "Pause", "Pause")
    page.locator(".airlock-badge-amber", has_text="paused").first.wait_for()
    press(page, "Run now", "Run")
    page.locator(".airlock-badge-green", has_text="succeeded").first.wait_for(timeout=20_000)
    page.goto(f"{airlock.url}admin/scheduling/jobworker/")
    page.locator(".airlock-badge-green", has_text="working").first.wait_for()
    page.goto(f"{airlock.url}admin/scheduling/job/")
    page.get_by_role("link", name="runs.retention").first.click()
    press(page, "Resume", "Resume")
    page.locator(".airlock-badge-green", has_text="active").first.wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1360, 390])
def test_no_page_has_an_accessibility_violation_or_a_console_error(
    airlock: Airlock, chromium: Any, logged_in: Any, scheme: str, width: int, tmp_path: Path
) -> None:
    """Every page of ours, light and dark, desk and phone; the pictures are kept under .cache/screenshots."""
    from axe_playwright_python.sync_playwright import Axe

    shots = Path(__file__).resolve().parents[2] / ".cache" / "screenshots"
    shots.mkdir(parents=True, exist_ok=True)
    context = chromium.new_context(
        storage_state=logged_in, viewport={"width": width, "height": 900}, color_scheme=scheme
    )
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
        result = Axe().run(page)
        serious = [entry for entry in result.response["violations"] if entry["impact"] in {"serious", "critical"}]
        if serious:
            found[path] = [f"{entry['id']}: {entry['nodes'][0]['html'][:120]}" for entry in serious]
    context.close()
    assert troubles == []
    assert found == {}
