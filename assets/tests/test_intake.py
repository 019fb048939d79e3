"""Imports: a file is imported once, recognised, or refused with a reason (A-06)."""

import os
import threading
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from assets.files.locations import imports_dir, path_of
from assets.intake import imports, watch_folders
from assets.models import Asset, Import
from jobs.models import Run
from station.clock import database_now
from station.leader_term import Term
from testing.fleet import HandWorker, work_off
from testing.library import make_clip
from testing.waiting import wait_until

State = Import.State


def bring(path: Path, project: Any, way: str = Import.Way.FOLDER) -> Import:
    row = imports.bring(path, project=project, way=way, now=database_now(), by="anna")
    assert row is not None
    return row


def done(row: Import) -> Import:
    work_off(imports.JOB)
    row.refresh_from_db()
    return row


@pytest.mark.django_db
class TestTaking:
    def test_a_file_becomes_an_asset(self, project: Any, file: Path) -> None:
        """A-06: copied under a readable name, with its checksum; processing is queued."""
        row = done(bring(file, project))
        assert row.state == State.DONE, row.error
        asset = row.asset
        assert asset is not None
        assert (asset.state, asset.title, asset.project) == (Asset.State.PROCESSING, "Evening news, part 1", project)
        path = path_of(asset.parts.get())
        assert path.read_bytes() == file.read_bytes()
        assert path.name == f"Evening news, part 1_i{row.pk}.ts"
        assert asset.steps.get(kind="checksum").done_at is not None
        assert Run.objects.filter(job__name="assets.probe", owner=asset.owner).count() == 1

    def test_a_second_import_of_the_same_file_is_a_duplicate(self, project: Any, file: Path, incoming: Path) -> None:
        """A-06"""
        first = done(bring(file, project))
        copy = incoming / "another name.ts"
        copy.write_bytes(file.read_bytes())
        second = done(bring(copy, project))
        assert (second.state, second.asset) == (State.DUPLICATE, first.asset)
        assert Asset.objects.count() == 1
        assert len([path for path in imports_dir().rglob("*") if path.is_file()]) == 1

    def test_a_file_whose_duplicate_is_in_the_trash_is_imported(self, project: Any, file: Path, incoming: Path) -> None:
        """A-06: the asset in the trash will be deleted."""
        from assets.library import retention

        first = done(bring(file, project)).asset
        assert first is not None
        Asset.objects.filter(pk=first.pk).update(state=Asset.State.READY)
        retention.trash(first, reason="by mistake", now=database_now(), by="anna")
        copy = incoming / "again.ts"
        copy.write_bytes(file.read_bytes())
        assert done(bring(copy, project)).state == State.DONE

    def test_an_import_waits_while_disk_space_is_low(self, project: Any, file: Path, settings: Any) -> None:
        """R-18: an import leaves enough disk space for recordings."""
        settings.LIBRARY_FREE_MB = 10**9
        row = done(bring(file, project))
        assert row.state == State.COPYING
        assert Run.objects.get().state == Run.State.RETRY

    def test_another_project_may_import_the_same_file(self, project: Any, file: Path, incoming: Path) -> None:
        from station.models import Project

        done(bring(file, project))
        copy = incoming / "copy.ts"
        copy.write_bytes(file.read_bytes())
        assert done(bring(copy, Project.objects.create(name="Sport", slug="sport"))).state == State.DONE

    @pytest.mark.parametrize(
        ("name", "content", "word"),
        [
            ("notes.txt", b"Dear colleagues\n" * 20, "not in a known video or audio format"),
            ("empty.mp4", b"", "is empty"),
            ("noise.ts", bytes(range(256)) * 100, "not in a known video or audio format"),
        ],
    )
    def test_files_that_are_not_media_are_refused(
        self, project: Any, incoming: Path, name: str, content: bytes, word: str
    ) -> None:
        """A-06: a clear error, and no file is left behind."""
        path = incoming / name
        path.write_bytes(content)
        row = done(bring(path, project))
        assert row.state == State.REFUSED
        assert word in row.error
        assert name in row.error
        assert not Asset.objects.exists()
        assert [each for each in imports_dir().rglob("*") if each.is_file()] == []
        assert path.exists()

    def test_files_outside_the_import_roots_are_refused(self, project: Any, incoming: Path, tmp_path: Path) -> None:
        """S-04: neither by path nor by link."""
        outside = make_clip(tmp_path / "outside.mp4", 1)
        link = incoming / "link.mp4"
        link.symlink_to(outside)
        for path in (outside, link):
            row = done(bring(path, project))
            assert row.state == State.REFUSED
            assert "IMPORT_ROOTS" in row.error

    def test_hostile_names_stay_inside_the_library(self, project: Any, incoming: Path, stored_clip: Path) -> None:
        """S-04, S-06"""
        path = incoming / "upload"
        path.write_bytes(stored_clip.read_bytes())
        name = "../../<script>alert(1)</script>\u202e.t/s"
        row = imports.bring(path, project=project, way=Import.Way.FOLDER, now=database_now(), by="x", name=name)
        assert row is not None
        assert done(row).state == State.DONE
        found = [each for each in imports_dir().rglob("*") if each.is_file()]
        assert len(found) == 1
        assert found[0].is_relative_to(imports_dir())
        assert "<" not in found[0].name

    def test_after_a_job_worker_died_another_repeats_the_import(self, project: Any, file: Path) -> None:
        """A-06: the copy starts again, the asset is created once."""
        row = bring(file, project)
        worker = HandWorker(imports.JOB)
        claimed = worker.claim()[0]
        worker.execute(claimed)  # it did everything, and died before it could report it
        Run.objects.filter(pk=claimed.id).update(state=Run.State.QUEUED, token=None)
        row = done(row)
        assert row.state == State.DONE
        assert Asset.objects.count() == 1
        assert Run.objects.get(pk=claimed.id).state == Run.State.SUCCEEDED

    def test_an_import_whose_run_was_deleted_is_refused(self, project: Any, file: Path) -> None:
        row = bring(file, project)
        Run.objects.all().delete()
        watch_folders.step(Term(), database_now())
        row.refresh_from_db()
        assert (row.state, row.error) == (State.REFUSED, "its run is gone")
        assert imports.again(row, now=database_now(), by="anna")
        assert done(row).state == State.DONE

    def test_the_import_command_imports_a_folder(self, project: Any, file: Path, incoming: Path, capsys: Any) -> None:
        """A-06: folders, with a dry run first."""
        (incoming / "sub").mkdir()
        (incoming / "sub" / "b.ts").write_bytes(file.read_bytes())
        (incoming / ".hidden.ts").write_bytes(b"x")
        call_command("import_media", str(incoming), project="news", dry_run=True)
        assert not Import.objects.exists()
        call_command("import_media", str(incoming), project="news")
        assert sorted(Import.objects.values_list("name", flat=True)) == ["Evening news, part 1.ts", "b.ts"]
        assert "2 files checked" in capsys.readouterr().out
        with pytest.raises(CommandError, match="no project"):
            call_command("import_media", str(incoming), project="nothing")
        with pytest.raises(CommandError, match="does not exist"):
            call_command("import_media", str(incoming / "x"), project="news")


@pytest.mark.django_db(transaction=True)
def test_two_job_workers_with_the_same_content_create_one_asset(project: Any, file: Path, incoming: Path) -> None:
    """A-06: at the same time, with different names."""
    copy = incoming / "copy.ts"
    copy.write_bytes(file.read_bytes())
    for path in (file, copy):
        bring(path, project)
    faults: list[BaseException] = []

    def work() -> None:
        try:
            work_off(imports.JOB)
        except BaseException as error:  # noqa: BLE001  the test checks it
            faults.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not faults
    wait_until(lambda: all(row.is_over for row in Import.objects.all()), 10, "both are over")
    assert sorted(Import.objects.values_list("state", flat=True)) == [State.DONE, State.DUPLICATE]
    assert Asset.objects.count() == 1


def test_the_fingerprint_changes_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"1")
    before = imports.fingerprint_of(path)
    os.utime(path, (1, 1))
    assert imports.fingerprint_of(path) != before
