"""Each house check finds a bad example and passes a good one."""

import pytest

from testing.environment import is_slow
from testing.house_checks import (
    File,
    Rules,
    check_claims,
    check_documents,
    check_requirements,
    check_sizes,
    check_typed_seams,
    check_wording,
    read_rules,
)

DOCUMENT = """
| id | promise | status |
| --- | --- | --- |
| R-01 | The loop has a safety net. | tested |
| R-22 | Limits on every connection. | planned |
"""
LONG_FUNCTION = "def long():\n" + "    a = 1\n" * 45


def test_requirements_that_a_test_names_or_that_are_planned_pass() -> None:
    assert not list(check_requirements([File("jobs/tests/test_a.py", '"""R-01"""')], DOCUMENT))


@pytest.mark.parametrize(
    ("named", "word"),
    [("R-01 and R-99", "names R-99"), ("nothing", "no test names R-01"), ("R-01, R-22", "R-22 is marked as planned")],
)
def test_requirements_that_do_not_match_the_tests_are_found(named: str, word: str) -> None:
    [found] = check_requirements([File("jobs/tests/test_a.py", f'"""{named}"""')], DOCUMENT)
    assert word in found


def test_a_requirement_that_is_listed_twice_is_found() -> None:
    found = list(check_requirements([File("a/tests/test_a.py", "R-01")], DOCUMENT + DOCUMENT))
    assert any("R-01 is listed twice" in each for each in found)


def test_a_requirement_named_only_outside_tests_is_found() -> None:
    [found] = check_requirements([File("jobs/models.py", '"""R-01"""')], DOCUMENT)
    assert "no test names R-01" in found


def test_long_modules_and_functions_are_found() -> None:
    files = [File("a/long.py", "a = 1\n" * 301), File("a/function.py", LONG_FUNCTION)]
    assert [each.partition(" lines")[0] for each in check_sizes(files, Rules())] == [
        "a/long.py: 301",
        "a/function.py:long: 46",
    ]


def test_a_method_is_named_with_its_class() -> None:
    method = "class A:\n" + "".join(f"    {line}\n" for line in LONG_FUNCTION.splitlines())
    [found] = check_sizes([File("a/b.py", method)], Rules())
    assert found.startswith("a/b.py:A.long: 46")


def test_long_modules_and_functions_with_a_reason_pass() -> None:
    files = [File("a/long.py", "a = 1\n" * 301), File("a/function.py", LONG_FUNCTION)]
    rules = Rules(modules={"a/long.py": "a list"}, functions={"a/function.py:long": "a list"})
    assert not list(check_sizes(files, rules))


def test_a_size_exception_that_is_not_needed_is_found() -> None:
    rules = Rules(modules={"a/short.py": "was long"}, functions={"a/short.py:gone": "was long"})
    assert len(list(check_sizes([File("a/short.py", "a = 1\n")], rules))) == 2


def test_test_functions_may_be_long_but_test_modules_may_not() -> None:
    assert not list(check_sizes([File("a/tests/test_a.py", LONG_FUNCTION)], Rules()))
    assert list(check_sizes([File("a/tests/test_a.py", "a = 1\n" * 301)], Rules()))


def test_long_lines_in_documents_are_found() -> None:
    long = "word " * 30
    [found] = check_documents([File("docs/a.md", f"short\n{long}\n")], Rules())
    assert found.startswith("docs/a.md:2: 150")


def test_tables_code_and_addresses_may_be_long() -> None:
    long = "word " * 30
    text = f"| {long} |\n```\n{long}\n```\n- https://example.org/{'a' * 130}\n"
    assert not list(check_documents([File("docs/a.md", text)], Rules()))


def test_a_document_exception_that_is_not_needed_is_found() -> None:
    assert list(check_documents([File("docs/a.md", "short\n")], Rules(documents={"docs/a.md": "old"})))


@pytest.mark.parametrize(
    "file",
    [
        File("a/b.py", 'text = f"{name} failed; Airlock keeps at it."\n'),
        File("a/b.py", '"""The rules\nstrikes at noon."""\n'),
        File("templates/a.html", "<h1>What goes</h1>"),
        File("docs/a.md", "A refusal is explained in words."),
    ],
)
def test_phrases_to_avoid_are_found(file: File) -> None:
    [found] = check_wording([file], Rules())
    assert "Write: " in found


def test_phrases_in_names_in_tests_or_with_a_reason_pass() -> None:
    files = [
        File("a/b.py", "in_words = strikes\n"),
        File("a/tests/test_b.py", '"""in words"""\n'),
        File("docs/a.md", "in words"),
    ]
    assert not list(check_wording(files, Rules(wording={"docs/a.md: in words": "a quotation"})))


def test_a_wording_exception_that_is_not_needed_is_found() -> None:
    assert list(check_wording([File("docs/a.md", "fine")], Rules(wording={"docs/a.md: in words": "a quotation"})))


def test_untyped_values_at_a_process_boundary_are_found() -> None:
    files = [
        File("worker/wire/status.py", "def read(raw: dict[str, Any]) -> None: ...\n"),
        File("worker/media/probe.py", "def read(raw: dict[str, Any]) -> None: ...\n"),
    ]
    [found] = check_typed_seams(files, Rules(typed_seams=("worker/wire",)))
    assert found.startswith("worker/wire/status.py:1")


def test_a_seam_that_does_not_exist_is_found() -> None:
    [found] = check_typed_seams([File("a.py", "")], Rules(typed_seams=("worker/wires",)))
    assert "worker/wires does not exist" in found


def test_rules_are_read_from_pyproject() -> None:
    rules = read_rules('[tool.airlock]\ntyped_seams = ["worker/wire"]\n[tool.airlock.size]\nmodule_lines = 200\n')
    assert (rules.typed_seams, rules.module_lines, rules.function_lines) == (("worker/wire",), 200, 40)


@pytest.mark.parametrize(
    ("markers", "fixtures", "slow"),
    [({"docker"}, set(), True), (set(), {"scheduler"}, True), ({"database"}, {"db"}, False)],
)
def test_tests_that_start_processes_are_slow(markers: set[str], fixtures: set[str], slow: bool) -> None:
    assert is_slow(markers, fixtures) is slow


CLAIMING = "def test_it_ends_within_2_seconds():\n    pass\n"


@pytest.mark.parametrize("mark", ["@pytest.mark.alone\n", "pytestmark = [pytest.mark.crash, pytest.mark.alone]\n"])
def test_a_claim_in_seconds_belongs_to_the_tests_that_run_alone(mark: str) -> None:
    assert not list(check_claims([File("a/tests/test_a.py", mark + CLAIMING)]))
    [found] = check_claims([File("a/tests/test_a.py", CLAIMING)])
    assert "claims seconds" in found
