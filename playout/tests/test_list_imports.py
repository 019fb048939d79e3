"""Import of playlists from files of other systems (P-12)."""

import base64
import unicodedata
from datetime import date
from fractions import Fraction
from typing import Any

import pytest

from assets.models import Asset, Import
from playout.lists import imports
from playout.tests.test_lists import make_asset, make_list
from station.clock import database_now
from station.models import Project

pytestmark = [pytest.mark.django_db, pytest.mark.database]

FILES = {
    "list.m3u": "#EXTM3U\n#EXTINF:60,First\nmedia/one-1.mp4\nTwo\n",
    "list.xspf": '<playlist xmlns="http://xspf.org/ns/0/"><trackList><track><location>file:///x/one-1.mp4</location>'
    "</track><track><title>Two</title></track></trackList></playlist>",
    "list.csv": "title,in,out\none,0:00:05,20\nTwo,,\n",
    "list.json": '{"items": [{"file": "one-1.mp4", "in": 5, "out": "0:20"}, {"title": "Two"}]}',
}


@pytest.mark.parametrize("name", FILES)
def test_a_playlist_is_imported_from_each_file_format(name: str, project: Any) -> None:
    """P-12: M3U, XSPF, CSV, JSON."""
    make_asset(project, "one")
    make_asset(project, "Two")
    playlist = make_list(project)
    preview = imports.look(imports.read(name, FILES[name].encode()), Asset.objects.all())
    assert preview.problems == []
    assert imports.save(preview, playlist, database_now()) == 2
    assert [item.asset.title for item in playlist.items.all() if item.asset] == ["one", "Two"]
    if name.endswith(("csv", "json")):
        first = playlist.items.first()
        assert first is not None
        assert (first.in_seconds, first.out_seconds) == (5.0, 20.0)


@pytest.mark.parametrize("line", ["http://[", "http://[::1/one-1.mp4?x#y", "²", "٣", "9" * 400, "a://b://c"])
def test_a_line_that_is_no_address_and_no_number_is_a_problem_not_an_error(line: str, project: Any) -> None:
    """S-07."""
    preview = imports.look(imports.read("list.m3u", f"#EXTM3U\n{line}\n".encode()), Asset.objects.all())
    assert len(preview.problems) == 1


def test_bad_lines_are_listed_and_nothing_is_imported(project: Any) -> None:
    """P-12, S-07."""
    make_asset(project, "one")
    make_asset(project, "twin")
    make_asset(project, "twin")
    playlist = make_list(project, {"asset": make_asset(project, "kept")})
    content = b"title,in,out\none,,\nmissing,,\none,10,5\none,abc,\ntwin,,\n,5,\n"
    preview = imports.look(imports.read("bad.csv", content), Asset.objects.all())
    assert [number for number, _ in preview.problems] == [3, 4, 5, 6, 7]
    assert "not in the library" in preview.problems[0][1]
    assert "several" in preview.problems[3][1]
    with pytest.raises(ValueError):
        imports.save(preview, playlist, database_now())
    assert [item.shown_title for item in playlist.items.all()] == ["kept"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.exe", b"one"),
        ("x.m3u", b""),
        ("x.m3u", b"\xff\xfe\x00"),
        ("x.json", b"{"),
        ("x.json", b'"text"'),
        ("x.json", b"[" * 100_000),
        ("x.xspf", b"<nonsense"),
        ("x.xspf", b'<!DOCTYPE x [<!ENTITY a "b">]><playlist/>'),
        ("x.csv", b"a,b\n1,2\n"),
        ("x.csv", b"x" * 3_000_000),
    ],
)
def test_unreadable_files_are_refused_with_a_reason(name: str, content: bytes) -> None:
    """P-12, S-07."""
    with pytest.raises(imports.NotReadable) as refusal:
        imports.read(name, content)
    assert len(str(refusal.value)) > 10


def imported(project: Any, name: str, source: str = "", title: str = "") -> Asset:
    """An asset as the import leaves it: renamed on the disk, with its original name on record."""
    now = database_now()
    asset = make_asset(project, title or name.rpartition(".")[0] or name)
    asset.parts.update(path=f"imports/news/2026-11-17/{asset.pk}_i{asset.pk}.mxf")
    row = Import.objects.create(
        project=project, name=name, source=source or f"/u/{asset.pk}/upload", state="done", state_since_at=now,
        created_at=now, asset=asset, way="folder" if source else "upload",
    )  # fmt: skip
    row.refresh_from_db()
    return asset


def found(content: str, project: Any, name: str = "list.m3u") -> list[str | None]:
    file = imports.read(name, content.encode())
    preview = imports.look(file, Asset.objects.filter(project=project))
    return [row.item.asset.title if row.item and row.item.asset else None for row in preview.rows]


@pytest.mark.parametrize(
    "reference",
    [
        "Opener.mp4",
        "/srv/media/Opener.mp4",
        "C:\\Media\\Opener.MP4",
        "file:///srv/media/Opener.mp4",
        "opener.mp4",
        "OPENER.mxf",
        "../Opener.mp4",
        "http://mam.example/files/Opener.mp4?x=1",
        "#EXTINF:12,Opener\nunknown-4711.mp4",
    ],
)
def test_a_renamed_import_is_found_by_the_names_that_others_know(project: Any, reference: str) -> None:
    """P-12: original name, path of any system, other ending, EXTINF title; none of these was found before."""
    imported(project, "Opener.mp4")
    imported(project, "Closer.mp4")
    assert found(f"#EXTM3U\n{reference}\n", project) == ["Opener"]


def test_accents_and_case_make_no_difference(project: Any) -> None:
    """P-12: a Mac writes accents as two characters; Windows and Linux do not care about the same things."""
    imported(project, unicodedata.normalize("NFD", "Müller im Café.mp4"))
    asked = ["Müller im Café.mp4", "MÜLLER IM CAFÉ.MP4", unicodedata.normalize("NFD", "müller im café.mov")]
    asked += ["file:///x/M%C3%BCller%20im%20Caf%C3%A9.mp4"]
    title = unicodedata.normalize("NFD", "Müller im Café")
    assert found("\n".join(asked), project) == [title] * 4
    windows = "title;in;out\nMüller im Café;1,5;\n".encode("cp1252")
    preview = imports.look(imports.read("x.csv", windows), Asset.objects.all())
    assert [item.in_seconds for item in preview.items] == [1.5]


def test_of_files_with_one_name_the_one_in_the_same_folders_is_taken(project: Any) -> None:
    imported(project, "promo.mp4", "/srv/in/monday/promo.mp4", "Monday")
    imported(project, "promo.mp4", "/srv/in/tuesday/promo.mp4", "Tuesday")
    asked = "D:\\x\\Tuesday\\promo.mp4\npromo.mp4\n#EXTINF:1,monday\nelse/promo.mp4\n"
    assert found(asked, project) == ["Tuesday", None, "Monday"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.csv", b"\xef\xbb\xbfTitle;In;Out\r\nOne;00:00:02:12;00:00:10:00\r\n;;\r\n"),
        ("x.csv", b"sep=;\r\nfile;in;out\r\none.mp4;2,48;10\r\n"),
        ("x.tsv", b"File Name\tIn\tOut\none.mp4\t0:02.48\t0:10\n"),
        ("x.txt", "title\tin\tout\nOne\t2.48\t10\n".encode("utf-16")),
        ("x.csv", b'path,"IN","OUT"\n"C:\\a,b\\one.mp4",2.48,10\n'),
        ("x.json", b'[{"name": "one", "in": 2.48, "out": "00:00:10:00"}]'),
    ],
)
def test_spreadsheets_of_every_kind_are_read(project: Any, name: str, content: bytes) -> None:
    """P-12: semicolon, tab, byte order mark, UTF-16, other column names, timecodes at the channel's rate."""
    imported(project, "One.mp4")
    preview = imports.look(imports.read(name, content, Fraction(25)), Asset.objects.all())
    assert preview.problems == []
    assert [(item.in_seconds, item.out_seconds) for item in preview.items] == [(2.48, 10.0)]
    if b":12" in content:
        with_frames = imports.look(imports.read(name, content), Asset.objects.all()).problems
        assert "frame rate is not known" in with_frames[0][1]


FFPLAYOUT = """{"channel": "Channel 1", "date": "2026-11-17", "program": [
  {"in": 0, "out": 60.0, "duration": 60.0, "source": "/tv-media/ADtv/One.mp4"},
  {"in": 5.04, "out": 20, "duration": 60.0, "source": "/tv-media/Two.mp4", "category": "advertisement"},
  {"in": 0, "out": 60.04, "duration": 60.04, "source": "/tv-media/One.mp4", "title": "Once more"}]}"""


def test_a_playlist_of_ffplayout_is_read(project: Any) -> None:
    """P-12: whole clips have no out point of their own; the day is known."""
    imported(project, "One.mp4")
    imported(project, "Two.mp4")
    file = imports.read("2026-11-17.json", FFPLAYOUT.encode())
    preview = imports.look(file, Asset.objects.all())
    assert file.on == date(2026, 11, 17)
    assert [(item.shown_title, item.in_seconds, item.out_seconds) for item in preview.items] == [
        ("One", 0.0, None),
        ("Two", 5.04, 20.0),
        ("Once more", 0.0, None),
    ]


def test_a_person_chooses_where_none_or_several_match(project: Any, client: Any, make_member: Any) -> None:
    """P-12: a candidate, an asset by number, or without the line; nothing is saved while a line is open."""
    one, other = imported(project, "twin.mp4", title="Twin"), imported(project, "twin.mp4", title="Twin")
    clip = imported(project, "b.mp4", title="Evening news")
    playlist = make_list(project, {"asset": clip})
    foreign = imported(Project.objects.create(name="Sport", slug="sport"), "match.mp4")
    client.force_login(make_member(project, "operator"))
    content = base64.b64encode(b"title\nTwin\nEvening show\nnothing like it\nb\n").decode()
    form = {"playlist": playlist.pk, "name": "x.csv", "content": content}

    page = client.post("/admin/import-playlist/", form).content.decode()
    assert "ambiguous" in page
    assert f'<option value="{one.pk}"' in page
    assert f'<option value="{clip.pk}"' in page, "the line with a word in common offers it"
    assert "Twin" in page

    for open_line in ({}, {"number-3": str(foreign.pk)}, {"choice-3": "999999"}, {"number-3": "x" * 30}):
        tried = {"choice-2": str(other.pk), "choice-4": "0", "save": "1", **open_line}
        assert client.post("/admin/import-playlist/", {**form, **tried}).status_code == 200
    assert [item.asset for item in playlist.items.all()] == [clip]

    chosen = {"choice-2": str(other.pk), "number-3": str(clip.pk), "choice-4": "0", "save": "1"}
    assert client.post("/admin/import-playlist/", {**form, **chosen}).status_code == 302
    assert [item.asset for item in playlist.items.all()] == [other, clip, clip]
    assert [item.title for item in playlist.items.all()][1] == "Evening show"
