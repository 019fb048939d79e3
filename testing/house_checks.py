"""Checks of this project for `make check`: requirement ids, sizes, line lengths of documents, wording, typed seams.

Exceptions are listed in pyproject.toml under [tool.airlock], each with its reason. An exception that is not needed is a
finding, too. Migrations are generated and are not checked.
"""

import ast
import io
import re
import subprocess
import sys
import tokenize
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
REQUIREMENTS = "docs/requirements.md"
REQUIREMENT = re.compile(r"\b[RAPJSUN]-\d{2}\b")
REQUIREMENT_ROW = re.compile(r"^\|\s*(?P<id>[RAPJSUN]-\d{2})\s*\|.*\|\s*(?P<status>tested|planned)\s*\|\s*$")
CLAIM = re.compile(r"^test_.*_within_(?:\d+|two|ten)_seconds")
ANY_DICT = re.compile(r"\b[dD]ict\[\s*str\s*,\s*Any\s*\]")
# A linked file name or an address cannot be wrapped.
UNBREAKABLE = re.compile(r"^\s*(?:[-*]\s+)?\S+$")

# Phrases to avoid, and what to write instead. They are searched for in strings, templates and documents.
PHRASES = {
    r"keeps? at it": "keeps trying",
    r"\bas you like\b": "say what was done: Created playlist X.",
    r"never happens again": "No further occurrences.",
    r"\bmust carry\b": "must have",
    r"not yours to do": "you don't have permission",
    r"\bWhat goes\b": "Upcoming deletions",
    r"gets? ready in the project": "is ready",
    r"on air as it was started": "is still running its old settings",
    r"\b(?:took|takes?|taking) office\b": "became leader",
    r"\bstrikes\b": "is due",
    r"\b(?:a|the|in a) cage\b": "a sandbox",
    r"\bin words\b": "with an explanation",
}


@dataclass(frozen=True)
class Rules:
    """[tool.airlock] of pyproject.toml."""

    module_lines: int = 300
    function_lines: int = 40
    document_columns: int = 120
    modules: Mapping[str, str] = field(default_factory=dict)
    functions: Mapping[str, str] = field(default_factory=dict)
    documents: Mapping[str, str] = field(default_factory=dict)
    wording: Mapping[str, str] = field(default_factory=dict)
    typed_seams: tuple[str, ...] = ()


@dataclass(frozen=True)
class File:
    path: str
    text: str

    @property
    def is_python(self) -> bool:
        return self.path.endswith(".py")

    @property
    def is_test(self) -> bool:
        name = self.path.rpartition("/")[2]
        return "/tests/" in self.path or name == "conftest.py" or name.startswith("test_")


def read_rules(text: str) -> Rules:
    """The rules from the text of pyproject.toml."""
    table: dict[str, Any] = tomllib.loads(text).get("tool", {}).get("airlock", {})
    size = table.get("size", {})
    return Rules(
        module_lines=size.get("module_lines", Rules.module_lines),
        function_lines=size.get("function_lines", Rules.function_lines),
        document_columns=table.get("document_columns", Rules.document_columns),
        modules=size.get("modules", {}),
        functions=size.get("functions", {}),
        documents=table.get("documents", {}),
        wording=table.get("wording", {}),
        typed_seams=tuple(table.get("typed_seams", ())),
    )


def check_requirements(files: Iterable[File], document: str) -> Iterator[str]:
    """Check that every id a test names exists, and that a test names every id that is not planned."""
    statuses: dict[str, str] = {}
    for line in document.splitlines():
        row = REQUIREMENT_ROW.match(line)
        if row and row["id"] in statuses:
            yield f"{REQUIREMENTS}: {row['id']} is listed twice."
        if row:
            statuses[row["id"]] = row["status"]
    named = _named_by_tests(files)
    for requirement in sorted(named.keys() - statuses.keys()):
        yield f"{named[requirement]}: names {requirement}, which is not in {REQUIREMENTS}."
    for requirement, status in statuses.items():
        if status == "tested" and requirement not in named:
            yield f"{REQUIREMENTS}: no test names {requirement}. Write one, or mark it as planned."
        if status == "planned" and requirement in named:
            yield f"{REQUIREMENTS}: {requirement} is marked as planned, but {named[requirement]} names it."


def _named_by_tests(files: Iterable[File]) -> dict[str, str]:
    """Requirement -> a test file that names it."""
    named: dict[str, str] = {}
    for file in files:
        if file.is_python and file.is_test and file.path != "testing/tests/test_house_checks.py":
            for requirement in REQUIREMENT.findall(file.text):
                named.setdefault(requirement, file.path)
    return named


def check_sizes(files: Iterable[File], rules: Rules) -> Iterator[str]:
    """Find long modules and functions without a reason, and reasons that are not needed."""
    long_modules, long_functions = set(), set()
    for file in files:
        if not file.is_python:
            continue
        lines = file.text.count("\n")
        if lines > rules.module_lines:
            long_modules.add(file.path)
            if file.path not in rules.modules:
                yield f"{file.path}: {lines} lines, more than {rules.module_lines}. Split it, or give a reason."
        for name, length in [] if file.is_test else _functions(file):
            if length > rules.function_lines:
                long_functions.add(name)
                if name not in rules.functions:
                    yield f"{name}: {length} lines, more than {rules.function_lines}. Split it, or give a reason."
    for name in [*(rules.modules.keys() - long_modules), *(rules.functions.keys() - long_functions)]:
        yield f"pyproject.toml: the size exception of {name} is not needed."


def _functions(file: File) -> Iterator[tuple[str, int]]:
    """(path:function, lines) of every function, methods as Class.method."""

    def walk(node: ast.AST, prefix: str) -> Iterator[tuple[str, int]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{file.path}:{prefix}{child.name}", (child.end_lineno or child.lineno) - child.lineno + 1
            inner = f"{prefix}{child.name}." if isinstance(child, ast.ClassDef) else prefix
            yield from walk(child, inner)

    yield from walk(ast.parse(file.text), "")


def check_documents(files: Iterable[File], rules: Rules) -> Iterator[str]:
    """Find long lines of Markdown, except tables, fenced code and lines without a space to break at."""
    long_documents = set()
    for file in files:
        if not file.path.endswith(".md"):
            continue
        is_code = False
        for number, line in enumerate(file.text.splitlines(), 1):
            if line.lstrip().startswith("```"):
                is_code = not is_code
            is_free = is_code or line.lstrip().startswith("|") or UNBREAKABLE.match(line)
            if len(line) > rules.document_columns and not is_free:
                long_documents.add(file.path)
                if file.path not in rules.documents:
                    yield f"{file.path}:{number}: {len(line)} columns, more than {rules.document_columns}."
    for path in rules.documents.keys() - long_documents:
        yield f"pyproject.toml: the exception for the long lines of {path} is not needed."


def check_wording(files: Iterable[File], rules: Rules) -> Iterator[str]:
    """Find phrases of PHRASES where a person reads them. An exception is named `path: phrase as written`."""
    used = set()
    patterns = [(re.compile(pattern), better) for pattern, better in PHRASES.items()]
    for file in files:
        if file.is_test or file.path == "testing/house_checks.py":
            continue
        for number, text in _read_by_people(file):
            for pattern, better in patterns:
                found = pattern.search(text)
                if not found:
                    continue
                name = f"{file.path}: {found[0]}"
                used.add(name)
                if name not in rules.wording:
                    yield f'{file.path}:{number}: "{found[0]}". Write: {better}'
    for name in rules.wording.keys() - used:
        yield f'pyproject.toml: the wording exception "{name}" is not needed.'


def _read_by_people(file: File) -> Iterator[tuple[int, str]]:
    """Strings and docstrings of Python, and whole lines of templates and documents."""
    if file.is_python:
        for token in tokenize.generate_tokens(io.StringIO(file.text).readline):
            if token.type in (tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", -1)):
                yield token.start[0], " ".join(token.string.split())
    elif file.path.endswith((".html", ".txt", ".md", ".env.example")):
        yield from enumerate(file.text.splitlines(), 1)


def check_typed_seams(files: Iterable[File], rules: Rules) -> Iterator[str]:
    """Find `dict[str, Any]` in modules whose values cross a process boundary: those are dataclasses of worker/wire."""
    met = set()
    for file in files:
        seams = [seam for seam in rules.typed_seams if file.path == seam or file.path.startswith(f"{seam}/")]
        met.update(seams)
        if not seams or not file.is_python or file.is_test:
            continue
        for number, line in enumerate(file.text.splitlines(), 1):
            if ANY_DICT.search(line):
                yield f"{file.path}:{number}: dict[str, Any] at a process boundary. Use a dataclass of worker/wire."
    for seam in set(rules.typed_seams) - met:
        yield f"pyproject.toml: the typed seam {seam} does not exist."


def check_claims(files: Iterable[File]) -> Iterator[str]:
    """A test that claims a number of seconds runs alone: beside other tests it would measure them."""
    for file in files:
        if "/tests/" not in file.path or not file.path.endswith(".py") or "pytest.mark.alone" in _module_mark(file):
            continue
        for node in ast.parse(file.text).body:
            if isinstance(node, ast.FunctionDef) and CLAIM.search(node.name):
                marks = " ".join(ast.unparse(each) for each in node.decorator_list)
                if "pytest.mark.alone" not in marks:
                    yield f"{file.path}:{node.lineno}: {node.name} claims seconds; mark it with pytest.mark.alone."


def _module_mark(file: File) -> str:
    return next((line for line in file.text.splitlines() if line.startswith("pytestmark")), "")


def read_tree(root: Path) -> list[File]:
    """The text of all files that git knows or would add, without migrations."""
    command = [
        "git",
        "ls-files",
        "--cached",
        "--others",
        "--exclude-standard",
        "*.py",
        "*.md",
        "*.html",
        ".env.example",
    ]
    names = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout.splitlines()
    paths = [name for name in dict.fromkeys(names) if "/migrations/" not in name and (root / name).is_file()]
    return [File(name, (root / name).read_text()) for name in paths]


def findings(files: list[File], rules: Rules) -> list[str]:
    document = next((file.text for file in files if file.path == REQUIREMENTS), "")
    return [
        *check_requirements(files, document),
        *check_sizes(files, rules),
        *check_documents(files, rules),
        *check_wording(files, rules),
        *check_typed_seams(files, rules),
        *check_claims(files),
    ]


def main() -> int:
    found = findings(read_tree(ROOT), read_rules((ROOT / "pyproject.toml").read_text()))
    for finding in found:
        print(finding)
    print(f"House checks: {len(found)} findings." if found else "House checks: nothing found.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
