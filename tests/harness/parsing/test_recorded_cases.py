"""The recorded outcomes of the reference parsers, and the two places where ours differs on purpose."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.parsing import parse_json, parse_xml
from harness.types import Reply

PARSERS: dict[str, Callable[[str], Reply]] = {"json": parse_json, "xml": parse_xml}


def pairs(reply: Reply) -> list[list[Any]]:
    return [[command.keystrokes, command.duration] for command in reply.commands]


def clamped(commands: list[list[Any]]) -> list[list[Any]]:
    return [[keys, 0.0 if math.isnan(seconds) else min(60.0, max(0.0, seconds))] for keys, seconds in commands]


def declared(value: object) -> bool:
    """What of a recorded signal counts as complete for us: the reference also takes other truthy values."""
    return value is True


def check_grammar(shared: Path, grammar: str) -> None:
    rows = json.loads((shared / "cases" / f"grammar_{grammar}.json").read_text())
    assert rows
    for row in rows:
        reply = PARSERS[grammar](row["input"])
        got = (pairs(reply), reply.complete, bool(reply.error), bool(reply.warnings))
        wanted = (clamped(row["commands"]), declared(row["task_complete"]), row["error"], row["warning"])
        assert got == wanted, row["name"]
        for field in ("analysis", "plan"):
            if isinstance(row[field], str):
                assert getattr(reply, field) == row[field], row["name"]


def test_json_replies_are_read_as_recorded(shared: Path) -> None:
    check_grammar(shared, "json")


def test_xml_replies_are_read_as_recorded(shared: Path) -> None:
    check_grammar(shared, "xml")


def test_malformed_replies_are_read_at_least_as_well(shared: Path) -> None:
    rows = json.loads((shared / "cases" / "malformed.json").read_text())
    assert rows
    for row in rows:
        reply = PARSERS[row["grammar"]](row["input"])
        assert reply.error == "" or row["reference_error"], row["case"]
        if not row["reference_error"]:
            assert pairs(reply) == row["reference_commands"], row["case"]
            assert reply.complete == row["reference_complete"], row["case"]
            assert bool(reply.warnings) == row["reference_warning"], row["case"]
