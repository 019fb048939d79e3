"""The leader's memory is discarded with its term."""

import threading

from station.leader_term import Term


class Notes:
    def __init__(self) -> None:
        self.lines: list[str] = []


def test_a_step_finds_its_memory_in_the_same_term_and_an_empty_one_in_the_next() -> None:
    """R-02: a process that becomes leader again starts without the memory of its earlier term."""
    first, second = Term(1), Term(2)
    first.memory(Notes).lines.append("seen")
    assert first.memory(Notes).lines == ["seen"]
    assert second.memory(Notes).lines == []


def test_threads_of_one_term_share_one_memory() -> None:
    term, found = Term(), []
    threads = [threading.Thread(target=lambda: found.append(term.memory(Notes))) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len(found) == 20
    assert len({id(each) for each in found}) == 1


def test_an_object_made_elsewhere_is_kept_and_an_ended_term_is_over() -> None:
    term, notes = Term(3), Notes()
    assert term.kept(Notes) is None
    term.keep(notes)
    assert term.kept(Notes) is notes
    assert not term.is_over
    term.end()
    assert term.is_over
