"""A secret in an address appears nowhere: not in ps, docker inspect, logs, a database dump or any page (S-05)."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from config.embedded_postgres import _binaries
from nodes.models import Workload
from nodes.workloads.reconcile import reconcile
from scheduling.models import Recorder
from scheduling.recording.controls import start_now, stop_now
from testing.media import free_port, sender
from testing.processes import database_url
from testing.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)

SECRET = "sesame-opens-4711"


@pytest.fixture
def node(any_node: Any) -> Any:
    return any_node


def command_lines_and_environments() -> bytes:
    """Everything `ps auxe` can show of this machine, except for the sender, which has to know the secret."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            command = (path / "cmdline").read_bytes()
            if b"testsrc2" not in command:
                found += [command, (path / "environ").read_bytes()]
        except OSError:
            continue
    return b"\n".join(found)


def workload_pk() -> int:
    return int(Workload.objects.get().pk)


def all_pages(user: User) -> str:
    client = Client()
    client.force_login(user)
    texts = []
    for model in admin.site._registry:
        name = f"{model._meta.app_label}_{model._meta.model_name}"
        texts.append(client.get(reverse(f"admin:{name}_changelist")).content.decode())
        for row in model._default_manager.all()[:20]:
            texts.append(client.get(reverse(f"admin:{name}_change", args=[row.pk])).content.decode())
            texts.append(client.get(reverse(f"admin:{name}_history", args=[row.pk])).content.decode())
    return "\n".join(texts)


def dump() -> str:
    command = [str(_binaries() / "pg_dump"), "--dbname", database_url(), "--inserts"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert "scheduling_recorder" in done.stdout
    return done.stdout


def test_a_secret_in_an_address_appears_nowhere(
    node: Any, project: Any, admin_user: User, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    port = free_port()
    client = Client()
    client.force_login(admin_user)
    data = {
        "name": "Secret cam",
        "project": project.pk,
        "source_type": "srt",
        "address": f"srt://127.0.0.1:{port}?passphrase={SECRET}&mode=caller",
        "container": "mpegts",
        "split_minutes": "0",
        "picture_size": "320x180",
        "video_bitrate": "300k",
        "folder_template": "{project}/{recorder}",
        "pad_before_seconds": "0",
        "pad_after_seconds": "0",
        "is_active": "on",
    }
    assert client.post(reverse("admin:scheduling_recorder_add"), data).status_code == 302
    recorder = Recorder.objects.get()
    assert recorder.secrets == {"passphrase": SECRET}

    with sender("-f", "mpegts", f"srt://127.0.0.1:{port}?mode=listener&passphrase={SECRET}"):
        outcome = start_now(recorder, by="anna")
        if not outcome.is_good:  # the sender may need another moment
            wait_until(lambda: reconcile(workload_pk()) and Workload.objects.get().progress.get("frames"), 30)
        seen = command_lines_and_environments()
        assert b"ffmpeg" in seen
        assert SECRET.encode() not in seen
        if hasattr(node, "engine"):
            for name in node.engine.containers():
                inspected = node.engine.docker("inspect", name).stdout
                assert "airlock.owner" in inspected
                assert SECRET not in inspected
                logs = node.engine.docker("logs", name)
                assert SECRET not in logs.stdout + logs.stderr
    # The sender is gone: ffmpeg's error message names the address, and it is stored and shown.
    workload = Workload.objects.get()

    def has_complained() -> bool:
        reconcile(workload.pk)
        workload.refresh_from_db()
        return bool(workload.progress.get("error"))

    wait_until(has_complained, 30, "the loss is reported")
    stop_now(recorder, by="anna")

    assert SECRET not in dump()
    assert SECRET not in all_pages(admin_user)
    assert SECRET not in caplog.text
    for folder in (settings.DATA_DIR, Path(node.media_dir)):
        for path in folder.rglob("*"):
            if path.is_file() and "postgres" not in path.parts:
                assert SECRET.encode() not in path.read_bytes(), path
