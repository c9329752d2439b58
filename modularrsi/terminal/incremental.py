"""What is new on a terminal since the last look.

Rows are numbered from the oldest row tmux still keeps: a row keeps its number when it scrolls from the screen into the
history. A `Mark` remembers where a reading ended (the line with the cursor) and the rows above it. At the next
reading, if these rows are still where they were, all from the mark on is new; if the first difference is above the
mark, a program has redrawn that part, and all from there is new. If they have moved (history trimmed), they are looked
for; if they are gone (screen and history cleared), nothing can be told.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

CONTEXT_ROWS = 80
_KEY_ROWS = 40


@dataclass(frozen=True, slots=True)
class View:
    """The rows from number `first` to the last of the screen, and the same text with wrapped rows joined.

    `starts[i]` is the number of the row where `lines[i]` begins; `history` the number of rows above the screen;
    `cursor` the row of the cursor.
    """

    first: int
    rows: Sequence[str]
    lines: Sequence[str]
    starts: Sequence[int]
    history: int
    cursor: int

    def line_of(self, row: int) -> int:
        """The index of the line that holds a row."""
        return max(0, bisect_right(self.starts, row) - 1)

    def text_from(self, row: int) -> str:
        """All text from the line that holds `row`."""
        return tidy(self.lines[self.line_of(row) :])

    def cursor_line(self) -> str:
        return self.lines[self.line_of(self.cursor)].rstrip() if self.lines else ""


@dataclass(frozen=True, slots=True)
class Mark:
    """Where a reading ended: `anchor` is the first row of the cursor's line, `tail` the text from there on, `rows` the
    rows from `first` to the anchor, `history` as in `View`."""

    first: int
    rows: Sequence[str]
    anchor: int
    tail: str
    history: int


def make_view(first: int, rows: Sequence[str], lines: Sequence[str], history: int, cursor: int) -> View:
    """`rows` and `lines` are the same part of the terminal with trailing blanks, unjoined and joined."""
    starts = [first + start for start in line_starts(rows, lines)]
    return View(first, [row.rstrip() for row in rows], lines, starts, history, cursor)


def line_starts(rows: Sequence[str], lines: Sequence[str]) -> list[int]:
    """For each joined line, the index of its first row. A line takes rows until they are as long as it is."""
    starts: list[int] = []
    row = 0
    for line in lines:
        starts.append(min(row, max(0, len(rows) - 1)))
        wanted, have = len(line.rstrip()), 0
        while row < len(rows):
            reached = have + len(rows[row].rstrip())
            have += len(rows[row])
            row += 1
            if reached >= wanted:
                break
    return starts


def tidy(lines: Sequence[str]) -> str:
    """Lines without trailing blanks, and without blank lines at the end."""
    last = len(lines)
    while last and not lines[last - 1].strip():
        last -= 1
    return "\n".join(line.rstrip() for line in lines[:last])


def take_mark(view: View) -> Mark:
    anchor = view.starts[view.line_of(view.cursor)] if view.starts else view.first
    first = max(view.first, anchor - CONTEXT_ROWS)
    rows = view.rows[first - view.first : anchor - view.first]
    return Mark(first, rows, anchor, view.text_from(anchor), view.history)


def changed_from(mark: Mark, view: View) -> int | None:
    """The first row that is new, if the mark is still where it was."""
    if view.first > mark.first or view.history < mark.history:
        return None
    now = view.rows[mark.first - view.first :]
    same = 0
    for before, after in zip(mark.rows, now, strict=False):
        if before != after:
            break
        same += 1
    if same == len(mark.rows):
        return mark.anchor
    in_history = mark.first + same < mark.history
    return None if in_history or not any(mark.rows[:same]) else mark.first + same


def found_again(mark: Mark, view: View) -> int | None:
    """The first row after the mark's own rows, wherever they are now. The earliest place wins: too much is shown
    rather than too little."""
    key = list(mark.rows[-_KEY_ROWS:])
    if not any(key):
        return None
    text = "\n".join(view.rows)
    at = f"\n{text}\n".find("\n" + "\n".join(key) + "\n")
    return None if at < 0 else view.first + text.count("\n", 0, at) + len(key)


def fresh_text(mark: Mark, view: View, start: int) -> str:
    """The text from row `start`; when nothing has happened since the mark, the cursor's line only."""
    text = view.text_from(start)
    return view.cursor_line() if start == mark.anchor and text == mark.tail else text
