"""Warnings about a reply, collected while it is read."""

from __future__ import annotations

_MAX_NOTES = 20


class Notes:
    """Collects warnings; keeps the first twenty and counts the others, so that feedback stays short."""

    def __init__(self) -> None:
        self._kept: list[str] = []
        self._dropped = 0

    def add(self, note: str) -> None:
        if len(self._kept) < _MAX_NOTES:
            self._kept.append(note)
        else:
            self._dropped += 1

    def no_newline(self, number: int) -> None:
        self.add(f"Command {number} does not end with a newline: the next one is typed onto the same line")

    def all(self) -> tuple[str, ...]:
        more = (f"and {self._dropped} more warnings",) if self._dropped else ()
        return (*self._kept, *more)
