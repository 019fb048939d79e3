"""`folder`: delivery as files. Media files are written first, under a hidden name until complete; the sidecar last.

The reader waits for the sidecar: when it exists, all files are complete. Sending again changes nothing.
"""

import json
import os
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from django.conf import settings

from assets.delivery.connectors.parcel import NotDelivered, Parcel, PartFile, Remember
from assets.files.checksums import of_files
from assets.files.locations import NoRoom, check_room
from station.folders import safe_part

DEFAULTS: dict[str, Any] = {"path": "", "sidecar": "json"}
BLOCK_BYTES = 4 * 1024 * 1024


def check_config(config: dict[str, Any], *, has_secret: bool) -> list[str]:
    faults = [f"{name} is unknown. Known options: {', '.join(DEFAULTS)}." for name in config if name not in DEFAULTS]
    known = {**DEFAULTS, **config}
    if known["sidecar"] not in ("json", "xml"):
        faults.append("sidecar must be json or xml.")
    path = Path(str(known["path"]))
    roots = [Path(root).resolve() for root in settings.DELIVERY_ROOTS]
    if not path.is_absolute() or not any(path.resolve().is_relative_to(root) for root in roots):
        allowed = ", ".join(str(root) for root in roots)
        faults.append(f"path must be an absolute path inside {allowed} (DELIVERY_ROOTS).")
    return faults


def send(parcel: Parcel, config: dict[str, Any], secret: str, remember: Remember) -> str:
    known = {**DEFAULTS, **config}
    faults = check_config(config, has_secret=False)
    if faults:
        raise NotDelivered(" ".join(faults))
    folder = Path(known["path"])
    # Keep the first name even if the title has changed, so that the same files are replaced.
    fresh = f"{safe_part(str(parcel.facts['title']))}_a{parcel.asset_id}"
    name = parcel.external_id if _is_plain(parcel.external_id) else fresh
    names = [_name_of(name, file, len(parcel.files)) for file in parcel.files]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        remember(name)
        for place, (file, target) in enumerate(zip(parcel.files, names, strict=True)):
            hand_over(file, folder / target, parcel, place)
        facts = {**parcel.facts, "key": parcel.key, "files": names}
        content = _xml(facts) if known["sidecar"] == "xml" else json.dumps(facts, indent=1, ensure_ascii=False).encode()
        write_whole(folder / f"{name}.{known['sidecar']}", content)
    except OSError as error:
        raise NotDelivered(f"{folder}: {error.strerror or error}") from error
    return name


def _is_plain(name: str) -> bool:
    """A plain file name. An ID from another kind of destination could be a path that leads anywhere (S-04)."""
    return bool(name) and Path(name).name == name and not name.startswith(".") and "\\" not in name


def hand_over(file: PartFile, target: Path, parcel: Parcel, place: int) -> None:
    """Copy under a hidden name and rename. An identical file is left as it is."""
    size = file.path.stat().st_size
    looks_the_same = target.is_file() and target.stat().st_size == size and bool(file.sha256)
    if looks_the_same and of_files([target], lambda percent: parcel.on_percent(0.0)).whole == file.sha256:
        return
    try:
        check_room(size, target.parent)
    except NoRoom as fault:
        raise NotDelivered(f"{target.parent}: {fault}") from fault
    draft = target.with_name(f".{target.name}.part")
    done = 0
    try:
        with file.path.open("rb") as source, draft.open("wb") as copy:
            while block := source.read(BLOCK_BYTES):
                copy.write(block)
                done += len(block)
                parcel.on_percent(100 * (place + done / max(size, 1)) / len(parcel.files))
            copy.flush()
            os.fsync(copy.fileno())
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


def write_whole(path: Path, content: bytes) -> None:
    draft = path.with_name(f".{path.name}.part")
    with draft.open("wb") as handle:
        handle.write(content)
        handle.flush()
        os.fsync(handle.fileno())
    draft.replace(path)


def _name_of(name: str, file: PartFile, count: int) -> str:
    suffix = file.path.suffix.lower()
    return f"{name}{suffix}" if count == 1 else f"{name}-{file.number:03d}{suffix}"


def _xml(facts: dict[str, Any]) -> bytes:
    root = ElementTree.Element("asset")
    _fill(root, facts)
    return bytes(ElementTree.tostring(root, encoding="utf-8", xml_declaration=True))


def _fill(element: ElementTree.Element, value: Any) -> None:
    if isinstance(value, dict):
        for name, inner in value.items():
            _fill(ElementTree.SubElement(element, str(name)), inner)
    elif isinstance(value, list):
        for inner in value:
            _fill(ElementTree.SubElement(element, "item"), inner)
    elif value is not None:
        element.text = str(value)
