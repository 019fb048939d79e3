"""Import of playlists from files of other systems (P-12)."""

from typing import Any

import pytest

from assets.models import Asset
from playout.lists import imports
from playout.tests.test_lists import make_asset, make_list
from station.clock import database_now

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
    content = b"title,in,out\none,,\nmissing,,\none,10,5\none,abc,\ntwin,,\n,,\n"
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
