"""What is new since the last look, on rows and lines without a tmux."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from modularrsi.terminal import incremental
from modularrsi.terminal.incremental import Mark, View

WIDTH, HEIGHT = 8, 4


def screen(lines: list[str], cursor_line: int = -1, trimmed: int = 0) -> View:
    """A terminal that shows these logical lines, wrapped at WIDTH; `trimmed` rows are gone from the history."""
    rows: list[str] = []
    starts: list[int] = []
    for line in lines:
        starts.append(len(rows))
        rows += [line[i : i + WIDTH] for i in range(0, max(1, len(line)), WIDTH)]
    cursor = (starts[cursor_line + 1] if cursor_line != -1 else len(rows)) - 1
    history = max(0, len(rows) - HEIGHT)
    assert not trimmed or not rows[:trimmed] or len(rows) > trimmed
    return incremental.make_view(0, rows[trimmed:], _after(lines, starts, trimmed), history - trimmed, cursor - trimmed)


def _after(lines: list[str], starts: list[int], trimmed: int) -> list[str]:
    kept = []
    for line, start in zip(lines, starts, strict=True):
        rest = line[max(0, trimmed - start) * WIDTH :]
        if start >= trimmed or rest:
            kept.append(rest)
    return kept


def new(mark: Mark, view: View) -> str | None:
    start = incremental.changed_from(mark, view)
    if start is None:
        start = incremental.found_again(mark, view)
    return None if start is None else incremental.fresh_text(mark, view, start)


TEXT = st.text(alphabet="ab漢 ", max_size=30).map(str.rstrip)


@given(st.lists(TEXT, max_size=20))
def test_lines_are_matched_to_their_rows(lines: list[str]) -> None:
    lines = [line.replace("漢", "x") for line in lines]
    rows: list[str] = []
    expected: list[int] = []
    for line in lines:
        expected.append(len(rows))
        rows += [line[i : i + WIDTH] for i in range(0, max(1, len(line)), WIDTH)]
    assert incremental.line_starts(rows, lines) == expected


NUMBERED = st.integers(0, 60).map(lambda count: [f"row {number} of the output" for number in range(count)])


@given(NUMBERED, st.integers(0, 60), st.integers(0, 3))
def test_new_text_begins_at_the_line_of_the_prompt(before: list[str], count: int, blank: int) -> None:
    before = [""] * blank + before
    mark = incremental.take_mark(screen([*before, "$"]))
    added = [f"new {number}" for number in range(count)]
    assert new(mark, screen([*before, "$ command", *added, "$"])) == "\n".join(["$ command", *added, "$"])


@given(NUMBERED)
def test_nothing_new_is_the_prompt_line_at_most(before: list[str]) -> None:
    view = screen([*before, "$"])
    assert new(incremental.take_mark(view), view) == "$"


def test_a_trimmed_history_is_found_again() -> None:
    before = [f"a {number}" for number in range(100)]
    mark = incremental.take_mark(screen([*before, "$"]))
    after = screen([*before, "$ run", *(f"b {number}" for number in range(50)), "$"], trimmed=40)
    text = new(mark, after)
    assert text is not None and text.startswith("$ run\nb 0\n") and text.endswith("b 49\n$")


def test_a_cleared_terminal_cannot_be_told() -> None:
    mark = incremental.take_mark(screen([f"a {number}" for number in range(30)] + ["$"]))
    assert new(mark, screen(["fresh", "$"])) is None


def test_a_history_that_lost_the_mark_cannot_be_told() -> None:
    mark = incremental.take_mark(screen(["a 1", "a 2", "$"]))
    after = screen(["a 1", "a 2", "$ run", *(f"b {number}" for number in range(100)), "$"], trimmed=50)
    assert new(mark, after) is None


def test_rows_redrawn_above_the_cursor_are_new() -> None:
    mark = incremental.take_mark(screen(["$ pull", "a 10%", "b 10%", ""]))
    assert new(mark, screen(["$ pull", "a 10%", "b 90%", ""])) == "b 90%"


def test_a_menu_below_the_cursor_is_not_repeated() -> None:
    view = screen(["$ menu", "one", "two"], cursor_line=0)
    assert new(incremental.take_mark(view), view) == "$ menu"


def test_an_empty_terminal() -> None:
    view = screen([""])
    mark = incremental.take_mark(view)
    assert new(mark, view) == ""
    assert new(mark, screen(["$"])) == "$"


REPETITIVE = st.lists(st.sampled_from(["y", "", "a", "$ "]), max_size=30)


@given(REPETITIVE, REPETITIVE)
def test_repetitive_output_never_raises(before: list[str], after: list[str]) -> None:
    mark = incremental.take_mark(screen([*before, "$"]))
    new(mark, screen([*after, "$"]))
    text = new(mark, screen([*before, "$", *after, "$"]))
    assert text is None or text.endswith("$")


def test_tidy_drops_trailing_blanks_only() -> None:
    assert incremental.tidy(["", "a  ", "", "b", " ", ""]) == "\na\n\nb"
