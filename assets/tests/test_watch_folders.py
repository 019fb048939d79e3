"""Watch folders: which files are imported, and what happens to them afterwards (A-06)."""

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ValidationError

from assets.intake import imports, watch_folders
from assets.models import Import, WatchFolder
from jobs.models import Run
from station.clock import database_now
from station.leader_term import Term
from station.models import Alert
from testing.fleet import work_off

State = Import.State


@pytest.fixture
def watched(project: Any, incoming: Path) -> WatchFolder:
    folder = WatchFolder(name="Cameras", project=project, path=str(incoming), settle_seconds=10)
    folder.full_clean()
    folder.save()
    return folder


def look(folder: WatchFolder, seconds: float) -> int:
    folder.refresh_from_db()
    return watch_folders.look(folder, database_now() + timedelta(seconds=seconds))


@pytest.mark.django_db
class TestWatching:
    def test_a_file_is_imported_when_it_has_stopped_growing(self, watched: WatchFolder, file: Path) -> None:
        """A-06: watch folder."""
        assert look(watched, 0) == 0
        with file.open("ab") as handle:
            handle.write(b"\x47" * 188)
        assert look(watched, 11) == 0  # it grew
        assert look(watched, 15) == 0
        assert look(watched, 22) == 1
        assert look(watched, 40) == 0  # once
        row = Import.objects.get()
        assert (row.way, row.watch_folder) == (Import.Way.WATCH, watched)

    def test_imported_and_refused_files_are_moved_aside(self, watched: WatchFolder, file: Path, incoming: Path) -> None:
        bad = incoming / "notes.txt"
        bad.write_text("no picture " * 50)
        look(watched, 0)
        look(watched, 11)
        work_off(imports.JOB)
        assert (incoming / "imported" / file.name).exists()
        assert (incoming / "refused" / "notes.txt").exists()
        assert not file.exists()
        assert look(watched, 60) == 0

    def test_a_file_that_continues_to_grow_is_not_imported_incomplete(
        self, watched: WatchFolder, file: Path, incoming: Path
    ) -> None:
        """A-06: its writer paused for longer than settle_seconds. It stays in place and is imported later."""
        look(watched, 0)
        assert look(watched, 11) == 1
        with file.open("ab") as handle:
            handle.write(b"\x47" * 188)
        work_off(imports.JOB)
        row = Import.objects.get()
        assert (row.state, file.exists()) == (State.REFUSED, True)
        assert "changed after its import was requested" in row.error
        look(watched, 20)
        assert look(watched, 31) == 1
        work_off(imports.JOB)
        assert Import.objects.filter(state=State.DONE).count() == 1
        assert (incoming / "imported" / file.name).exists()

    def test_a_refused_file_that_was_moved_aside_can_be_tried_again(self, watched: WatchFolder, incoming: Path) -> None:
        bad = incoming / "notes.txt"
        bad.write_text("no picture " * 50)
        look(watched, 0)
        look(watched, 11)
        work_off(imports.JOB)
        row = Import.objects.get()
        assert row.source == str(incoming / "refused" / "notes.txt")
        [alert] = Alert.objects.filter(key=f"import_refused:{watched.pk}")
        assert "notes.txt" in alert.text
        assert imports.again(row, now=database_now(), by="anna")

    def test_moving_aside_never_replaces_another_file(self, watched: WatchFolder, incoming: Path) -> None:
        """A-06: memory cards have files with the same names, and the refused one may be the only copy."""
        for card in ("a", "b", "c"):
            (incoming / card).mkdir()
            (incoming / card / "CLIP0001.txt").write_text(f"no picture, card {card} " * 50)
        look(watched, 0)
        look(watched, 11)
        work_off(imports.JOB)
        kept = {path.read_text()[:18] for path in (incoming / "refused").iterdir()}
        assert kept == {f"no picture, card {card}" for card in "abc"}

    def test_a_file_that_is_dropped_again_is_checked_again(
        self, watched: WatchFolder, file: Path, stored_clip: Path
    ) -> None:
        """A copy that keeps its dates is still another file."""
        look(watched, 0)
        look(watched, 11)
        work_off(imports.JOB)
        found = stored_clip.stat()
        file.write_bytes(stored_clip.read_bytes())
        os.utime(file, ns=(found.st_atime_ns, found.st_mtime_ns))
        look(watched, 60)
        assert look(watched, 71) == 1
        work_off(imports.JOB)
        assert Import.objects.filter(state=State.DUPLICATE).count() == 1

    def test_a_folder_of_another_project_cannot_be_watched(self, watched: WatchFolder, incoming: Path) -> None:
        """S-01: neither the folder nor a subfolder."""
        from station.models import Project

        sport = Project.objects.create(name="Sport", slug="sport")
        for path in (incoming, incoming / "sport"):
            with pytest.raises(ValidationError, match="Another project already watches"):
                WatchFolder(name="Theirs", project=sport, path=str(path)).full_clean(exclude=["path"])
        WatchFolder(name="Ours", project=watched.project, path=str(incoming / "more")).full_clean()

    def test_hidden_incomplete_and_linked_files_are_ignored(
        self, watched: WatchFolder, incoming: Path, tmp_path: Path
    ) -> None:
        (incoming / ".hidden.ts").write_bytes(b"x")
        (incoming / "big.mov.part").write_bytes(b"x")
        (tmp_path / "secret").write_bytes(b"x")
        (incoming / "link.ts").symlink_to(tmp_path / "secret")
        (incoming / "way-out").symlink_to("/etc")
        look(watched, 0)
        assert look(watched, 60) == 0

    def test_a_file_with_an_unusable_name_does_not_stop_the_others(
        self, watched: WatchFolder, file: Path, incoming: Path
    ) -> None:
        Path(os.fsdecode(os.fsencode(incoming) + b"/\xdcbung.ts")).write_bytes(b"x")
        look(watched, 0)
        assert look(watched, 11) == 1
        watched.refresh_from_db()
        assert "bung.ts" in watched.error

    def test_a_file_left_in_place_is_imported_once(self, watched: WatchFolder, file: Path) -> None:
        WatchFolder.objects.update(afterwards=WatchFolder.Afterwards.LEAVE)
        assert [look(watched, seconds) for seconds in (0, 11, 22, 33)] == [0, 1, 0, 0]
        work_off(imports.JOB)
        assert file.exists()
        watched.refresh_from_db()
        assert [mark for *_, mark in watched.seen.values()] == ["taken"]

    def test_a_missing_folder_is_reported(self, watched: WatchFolder, incoming: Path) -> None:
        incoming.rmdir()
        assert look(watched, 0) == 0
        watched.refresh_from_db()
        assert "No such file" in watched.error

    def test_a_watch_folder_outside_the_roots_is_invalid(self, project: Any, incoming: Path) -> None:
        """S-04"""
        for path in ["/etc", f"{incoming}/../x", "relative"]:
            with pytest.raises(ValidationError):
                WatchFolder(name="x", project=project, path=path).full_clean()

    def test_the_leader_queues_a_check_every_few_seconds(self, watched: WatchFolder) -> None:
        now = database_now()
        assert watch_folders.step(Term(), now) == now + timedelta(seconds=watch_folders.LOOK_SECONDS)
        assert Run.objects.filter(job__name=watch_folders.JOB).count() == 1
        watch_folders.step(Term(), now + timedelta(seconds=1))
        assert Run.objects.filter(job__name=watch_folders.JOB).count() == 1
        work_off(watch_folders.JOB)
        watch_folders.step(Term(), now + timedelta(seconds=6))
        assert Run.objects.filter(job__name=watch_folders.JOB).count() == 2

    def test_without_watch_folders_the_step_has_nothing_to_do(self, db: Any) -> None:
        assert watch_folders.step(Term(), database_now()) is None
        assert not Run.objects.exists()
