"""Delivery into a folder: the files, then a sidecar, each complete or not at all."""

import hashlib
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from assets.delivery import connectors, lifecycle
from assets.models import Asset, Delivery, Destination
from assets.tests.test_delivery_lifecycle import attempt, deliver
from station.clock import database_now

pytestmark = pytest.mark.django_db

State = Delivery.State


@pytest.fixture
def outgoing(project: Any, settings: Any, tmp_path: Path) -> Destination:
    settings.DELIVERY_ROOTS = [str(tmp_path / "outgoing")]
    destination = Destination(
        name="Folder", project=project, connector="folder", config={"path": str(tmp_path / "outgoing" / "mam")}
    )
    destination.full_clean()
    destination.save()
    return destination


def test_a_folder_gets_the_file_and_then_its_sidecar(ready: Asset, outgoing: Destination, clip: Path) -> None:
    delivery = deliver(ready, outgoing)
    assert delivery.state == State.DELIVERED, delivery.error
    folder = Path(outgoing.config["path"])
    names = sorted(path.name for path in folder.iterdir())
    assert names == [f"A clip_a{ready.pk}.json", f"A clip_a{ready.pk}.ts"]
    assert (folder / names[1]).read_bytes() == clip.read_bytes()
    sidecar = json.loads((folder / names[0]).read_text())
    assert (sidecar["title"], sidecar["files"], sidecar["key"]) == ("A clip", [names[1]], str(delivery.key))


def test_a_sidecar_can_be_xml(ready: Asset, outgoing: Destination) -> None:
    outgoing.config = {**outgoing.config, "sidecar": "xml"}
    outgoing.save()
    deliver(ready, outgoing)
    path = next(Path(outgoing.config["path"]).glob("*.xml"))
    assert ElementTree.parse(path).findtext("title") == "A clip"


def test_delivering_again_leaves_an_identical_file_as_it_is(ready: Asset, outgoing: Destination) -> None:
    delivery = deliver(ready, outgoing)
    path = next(Path(outgoing.config["path"]).glob("*.ts"))
    Asset.objects.filter(pk=ready.pk).update(sha256="")
    ready.parts.update(sha256=hashlib.sha256(path.read_bytes()).hexdigest())
    before = path.stat().st_ino
    lifecycle.again(delivery, now=database_now(), by="anna")
    attempt()
    assert path.stat().st_ino == before


def test_a_folder_outside_of_the_roots_is_refused(project: Any, settings: Any, tmp_path: Path) -> None:
    settings.DELIVERY_ROOTS = [str(tmp_path / "outgoing")]
    for path in ["/etc", str(tmp_path / "outgoing" / ".." / "x"), "relative", ""]:
        faults = connectors.check_config("folder", {"path": path}, has_secret=False)
        assert any("DELIVERY_ROOTS" in fault for fault in faults), path


def test_a_folder_that_cannot_be_written_is_a_failed_attempt(ready: Asset, outgoing: Destination) -> None:
    Path(outgoing.config["path"]).parent.mkdir(parents=True)
    Path(outgoing.config["path"]).write_text("a file is in the way")
    delivery = deliver(ready, outgoing)
    assert delivery.state == State.FAILED
    assert delivery.error


def test_a_new_title_does_not_create_a_second_file(ready: Asset, outgoing: Destination) -> None:
    """A-03: the file keeps its first name; the sidecar has the new title."""
    delivery = deliver(ready, outgoing)
    folder = Path(outgoing.config["path"])
    names = sorted(path.name for path in folder.iterdir())
    Asset.objects.filter(pk=ready.pk).update(title="Corrected")
    lifecycle.again(delivery, now=database_now(), by="anna")
    attempt()
    assert sorted(path.name for path in folder.iterdir()) == names
    assert json.loads((folder / names[0]).read_text())["title"] == "Corrected"


@pytest.mark.parametrize("number", ["../../outside", "/etc/x", ".hidden", "a/b", ".."])
def test_an_external_id_that_is_a_path_is_not_used_as_a_file_name(
    ready: Asset, outgoing: Destination, number: str
) -> None:
    """S-04: for example after a destination was changed from http to folder."""
    delivery = deliver(ready, outgoing)
    Delivery.objects.update(external_id=number)
    lifecycle.again(Delivery.objects.get(), now=database_now(), by="anna")
    attempt()
    delivery.refresh_from_db()
    assert delivery.state == State.DELIVERED
    assert delivery.external_id == f"A clip_a{ready.pk}"


def test_an_asset_without_a_readable_file_is_not_delivered(ready: Asset, outgoing: Destination) -> None:
    """A-03: an empty delivery is a failed attempt."""
    ready.parts.update(is_readable=False)
    delivery = deliver(ready, outgoing)
    assert delivery.state == State.FAILED
    assert "no readable file" in delivery.error
