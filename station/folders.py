"""The folders of the media tree, and file names made safe from typed text (S-04)."""

import re
import unicodedata

MAX_PART_BYTES = 60
PREVIEW_FOLDER = "live"
LIBRARY_FOLDER = "library"
IMPORTS_FOLDER = "imports"
PLAYOUT_FOLDER = "playout"
OWN_FOLDERS = (PREVIEW_FOLDER, LIBRARY_FOLDER, IMPORTS_FOLDER, PLAYOUT_FOLDER)
_FORBIDDEN = re.compile(r"[^\w .,()+=@-]+")


def safe_part(text: str) -> str:
    """One folder or file name: letters of any script, digits and some punctuation; never hidden, empty or too long."""
    text = unicodedata.normalize("NFC", text)
    text = _FORBIDDEN.sub("-", "".join(char for char in text if char.isprintable()))
    text = text.strip(" .-") or "unnamed"
    while len(text.encode()) > MAX_PART_BYTES:
        text = text[:-1].rstrip(" .-")
    return text
