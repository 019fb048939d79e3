"""`http`: a MAM with a JSON API. Creates or updates the asset, then uploads the files or sends their addresses.

Every call has an Idempotency-Key that stays the same for the asset and destination, so that the MAM can recognise a
repetition. A call with an unknown result (a time-out, an incomplete response) is repeated with the same key.
"""

import hashlib
import hmac
import json
import time
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote, urlsplit

from django.conf import settings
from django.core.exceptions import ValidationError

from assets.delivery.connectors.parcel import Forgotten, NotDelivered, Parcel, PartFile, Remember
from assets.files.checksums import of_files
from station import outbound

DEFAULTS: dict[str, Any] = {
    "base_url": "",
    "auth": "bearer",
    "auth_header": "",
    "create_method": "POST",
    "create_path": "/assets",
    "update_method": "PUT",
    "update_path": "/assets/{id}",
    "media": "reference",
    "upload_method": "PUT",
    "upload_path": "/assets/{id}/files/{number}",
    "complete_method": "POST",
    "complete_path": "",
    "reference_base": "",
    "id_field": "id",
    "fields": {},
    "extra": {},
    "headers": {},
}
METHODS = {"POST", "PUT", "PATCH"}
BELIEVED_AT_ATTEMPT = 3
# A header with such a name would hold a secret that is visible in the configuration.
SECRET_WORDS = ("auth", "key", "token", "secret", "password", "cookie")
FACTS = (
    *("title", "project", "asset_id", "starts_at", "ends_at", "duration_seconds", "completeness_percent", "state"),
    *("video_format", "audio_format", "timecode", "sha256", "size_bytes", "loudness_lufs", "gaps", "files"),
)


def check_config(config: dict[str, Any], *, has_secret: bool) -> list[str]:
    """All faults of a destination's configuration, one sentence each."""
    known = {**DEFAULTS, **config}
    faults = [f"{name} is unknown. Known options: {', '.join(DEFAULTS)}." for name in config if name not in DEFAULTS]
    wrong = [name for name, value in DEFAULTS.items() if not isinstance(known[name], type(value))]
    if wrong:
        return [*faults, *(f"{name} must be {'an object' if DEFAULTS[name] == {} else 'a text'}." for name in wrong)]
    return [*faults, *_address_faults(known, has_secret), *_path_faults(known), *_content_faults(known)]


def _address_faults(known: dict[str, Any], has_secret: bool) -> list[str]:
    """The server's address, and how Airlock authenticates there."""
    faults = []
    try:
        outbound.check_url_form(str(known["base_url"]))
    except ValidationError as error:
        faults.append(f"base_url: {' '.join(error.messages)}")
    if known["auth"] not in {"none", "bearer", "header", "hmac"}:
        faults.append("auth must be none, bearer, header or hmac.")
    elif known["auth"] != "none" and not has_secret:
        faults.append(f"auth {known['auth']} needs a secret.")
    if (known["auth"] == "header") != bool(known["auth_header"]):
        faults.append("auth_header, the name of the header for the secret, is required with auth header and only then.")
    faults += [
        f"headers: {name} looks like a secret. Use the field Secret with auth header instead."
        for name in known["headers"]
        if any(word in str(name).lower() for word in SECRET_WORDS)
    ]
    return faults


def _path_faults(known: dict[str, Any]) -> list[str]:
    """How media files are sent, and which calls are made."""
    faults = []
    if known["media"] not in {"none", "reference", "upload"}:
        faults.append("media must be none, reference or upload.")
    if known["media"] == "reference" and not known["reference_base"]:
        faults.append("media reference needs reference_base: the base address from which the MAM reads the files.")
    faults += [
        f"{name} must be one of {', '.join(sorted(METHODS))}."
        for name in ("create_method", "update_method", "upload_method", "complete_method")
        if known[name] not in METHODS
    ]
    faults += [
        f"{name} must contain {{id}}." for name in ("update_path", "upload_path") if "{id}" not in str(known[name])
    ]
    return faults


def _content_faults(known: dict[str, Any]) -> list[str]:
    """The fields and headers that are sent."""
    faults = [f"fields: {name} is not one of {', '.join(FACTS)}." for name in known["fields"] if name not in FACTS]
    if not all(isinstance(value, str) and value for value in known["fields"].values()):
        faults.append("fields: every value must be a name (text).")
    else:
        faults += [f"extra conflicts with fields at {name}." for name in _in_the_way(known)]
    faults += [
        f"headers: {name} cannot be sent."
        for name, value in {**known["headers"], **({known["auth_header"]: ""} if known["auth_header"] else {})}.items()
        if not str(name).replace("-", "").isalnum() or not str(value).isprintable()
    ]
    return faults


def _in_the_way(known: dict[str, Any]) -> list[str]:
    """Paths where the mapping needs an object and `extra` has another value."""
    content = json.loads(json.dumps(known["extra"]))
    try:
        for path in known["fields"].values():
            put(content, path, "x")
    except (AttributeError, TypeError):
        return [path]
    return []


def send(parcel: Parcel, config: dict[str, Any], secret: str, remember: Remember) -> str:
    mam = Mam({**DEFAULTS, **config}, secret, parcel)
    body = mam.describe()
    number = parcel.external_id
    if number:
        mam.update(number, body)
    else:
        number = mam.create(body)
        remember(number)
    if mam.config["media"] == "upload":
        for place, file in enumerate(parcel.files):
            mam.upload(number, file)
            parcel.on_percent(100 * (place + 1) / len(parcel.files))
    if mam.config["complete_path"]:
        step = f"complete-{parcel.round}"
        mam.call(mam.config["complete_method"], mam.config["complete_path"], number, b"{}", step=step)
    return number


@dataclass
class Mam:
    """The MAM's API, for one parcel."""

    config: dict[str, Any]
    secret: str
    parcel: Parcel

    def describe(self) -> bytes:
        """The request body: each fact under its mapped name; unmapped facts keep their own names."""
        facts = dict(self.parcel.facts)
        if self.config["media"] == "reference":
            base = str(self.config["reference_base"]).rstrip("/")
            for file in facts["files"]:
                file["url"] = f"{base}/{quote(str(PurePosixPath(file['path'])))}"
        mapping: dict[str, str] = self.config["fields"]
        content = {**self.config["extra"]}
        for name, value in facts.items():
            put(content, mapping.get(name, name), value)
        return json.dumps(content, ensure_ascii=False).encode()

    def create(self, body: bytes) -> str:
        """Returns the MAM's ID. A 409 response with an ID means that an earlier attempt succeeded."""
        answer = self.call(self.config["create_method"], self.config["create_path"], "", body, also=(409,))
        return self._number(answer)

    def update(self, number: str, body: bytes) -> None:
        """Uses a key of this round: a gateway that honours keys would replay its response to an earlier one."""
        step = f"update-{self.parcel.round}-{hashlib.sha256(body).hexdigest()[:12]}"
        answer = self.call(
            self.config["update_method"], self.config["update_path"], number, body, step=step, also=(404, 410)
        )
        # A gateway may return 404 while the MAM is down: it counts only when repeated.
        if answer.status == 410 or (answer.status == 404 and self.parcel.attempt >= BELIEVED_AT_ATTEMPT):
            raise Forgotten(f"The MAM no longer knows {number}. The next attempt creates it again.")
        if answer.status == 404:
            raise NotDelivered(f"The MAM does not know {number} (404). If this repeats, it is created again.")

    def upload(self, number: str, file: PartFile) -> None:
        path = str(self.config["upload_path"]).replace("{number}", str(file.number))
        digest = file.sha256 or of_files([file.path]).whole
        with file.path.open("rb") as handle:
            self.call(
                self.config["upload_method"],
                path,
                number,
                handle,
                step=f"file-{file.number}-{self.parcel.round}",
                headers={
                    "Content-Type": "application/octet-stream",
                    "Content-Length": str(file.path.stat().st_size),
                    "X-Content-SHA256": digest,
                },
                digest=digest,
            )

    def call(
        self,
        method: str,
        path: str,
        number: str,
        body: Any,
        *,
        step: str = "",
        headers: dict[str, str] | None = None,
        digest: str = "",
        also: tuple[int, ...] = (),
    ) -> outbound.Answer:
        base = str(self.config["base_url"]).rstrip("/")
        url = base + "/" + path.replace("{id}", quote(number, safe="")).lstrip("/")
        key = f"{self.parcel.key}{f'-{step}' if step else ''}"
        digest = digest or hashlib.sha256(body).hexdigest()
        sent = {
            "Content-Type": "application/json",
            "Accept": "application/json",
            "Idempotency-Key": key,
            **{str(name): str(value) for name, value in self.config["headers"].items()},
            **(headers or {}),
            **self._proof(method, url, digest),
        }
        try:
            return outbound.call(method, url, body, sent, settings.DELIVERY_TIMEOUT_SECONDS, also=also)
        except outbound.OutboundError as error:
            raise NotDelivered(f"{method} {urlsplit(url).path}: {error}") from error

    def _proof(self, method: str, url: str, digest: str) -> dict[str, str]:
        """Authentication headers: the token, or a signature over time, method, path and content."""
        if self.config["auth"] == "bearer":
            return {"Authorization": f"Bearer {self.secret}"}
        if self.config["auth"] == "header":
            return {str(self.config["auth_header"]): self.secret}
        if self.config["auth"] == "hmac":
            stamp = str(int(time.time()))
            text = f"{stamp}\n{method}\n{urlsplit(url).path}\n{digest}"
            signature = hmac.new(self.secret.encode(), text.encode(), hashlib.sha256).hexdigest()
            return {"X-Airlock-Timestamp": stamp, "X-Airlock-Signature": f"sha256={signature}"}
        return {}

    def _number(self, answer: outbound.Answer) -> str:
        try:
            found: Any = json.loads(answer.body)
            for name in str(self.config["id_field"]).split("."):
                found = found[int(name)] if isinstance(found, list) else found[name]
        except (ValueError, KeyError, IndexError, TypeError) as error:
            words = f"The MAM answered {answer.status} without {self.config['id_field']}"
            raise NotDelivered(f"{words}: {answer.body[:200].decode(errors='replace')}") from error
        if not isinstance(found, str | int) or not str(found):
            raise NotDelivered(f"The MAM returned an invalid ID: {str(found)[:80]}")
        return str(found)[:200]


def put(content: dict[str, Any], path: str, value: Any) -> None:
    """Set a value at a dotted path: `metadata.name` is one level deeper."""
    *above, last = path.split(".")
    for name in above:
        content = content.setdefault(name, {})
    content[last] = value
