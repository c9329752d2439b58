"""Reads ATIF trajectories, 1.0 to 1.8, ours and Harbor's, into a view.

Strict about what makes a trajectory (an agent, steps that are objects), tolerant about the rest: an odd field becomes a
warning, a missing one is empty. Token ids and log-probabilities, the bulk of some files, are dropped while parsing.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from modularrsi.errors import UserError
from modularrsi.recorder.view import CommandView, MetricsView, StepView, TrajectoryView

MAX_FILE_BYTES = 256 * 1024 * 1024
_BULK = frozenset({"prompt_token_ids", "completion_token_ids", "logprobs", "token_ids"})
_SCHEMA = re.compile(r"ATIF-v1\.(\d+)")
_NEWEST = 8
_MAX_WARNINGS = 50


def load_trajectory(path: Path) -> TrajectoryView:
    """Raises UserError that names the file and what is wrong with it."""
    try:
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            raise UserError(f"{path} has {size} bytes; at most {MAX_FILE_BYTES} can be shown")
        data = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}; give the path of a trajectory.json") from error
    return parse_trajectory(data, str(path))


def parse_trajectory(data: bytes, name: str) -> TrajectoryView:
    """`name` stands for the file in errors."""
    try:
        raw = json.loads(data, object_pairs_hook=_without_bulk)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{name} is not JSON ({str(error)[:200]}); give a trajectory in ATIF") from error
    return _Reader(name).trajectory(raw, "")


def _without_bulk(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return {key: value for key, value in pairs if key not in _BULK}


class _Reader:
    """Collects warnings while it reads one file."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._warnings: list[str] = []

    def trajectory(self, raw: Any, where: str, depth: int = 3) -> TrajectoryView:
        fields = _object(raw)
        schema = self._schema(fields, where)
        steps = fields.get("steps")
        if not isinstance(steps, list) or not steps:
            raise UserError(f"{self._name}: {where}steps must be a list of at least one step; "
                            "give a trajectory in ATIF")
        agent, extra = _object(fields.get("agent")), _object(fields.get("extra"))
        views = tuple(self._step(step, index, where) for index, step in enumerate(steps, 1))
        subagents = _list(fields.get("subagent_trajectories")) if depth else []
        return TrajectoryView(
            schema=schema,
            session=_text(fields.get("trajectory_id") or fields.get("session_id")),
            agent=_text(agent.get("name")),
            version=_text(agent.get("version")),
            model=_text(agent.get("model_name")),
            steps=views,
            totals=_metrics(_object(fields.get("final_metrics")), "total_"),
            ending=_text(extra.get("ending")),
            continued_in=_text(fields.get("continued_trajectory_ref")),
            subagents=tuple(self.trajectory(item, f"{where}subagent_trajectories[{index}].", depth - 1)
                            for index, item in enumerate(subagents)),
            warnings=tuple(self._warnings) if not where else (),
            extra=extra,
        )

    def _schema(self, fields: dict[str, Any], where: str) -> str:
        schema = fields.get("schema_version")
        match = _SCHEMA.fullmatch(schema) if isinstance(schema, str) else None
        if match is None:
            found = "missing" if schema is None else repr(str(schema)[:60])
            raise UserError(f"{self._name}: {where}schema_version is {found}; give a trajectory in ATIF, versions "
                            f"1.0 to 1.{_NEWEST} (\"ATIF-v1.N\")")
        if int(match[1]) > _NEWEST:
            self._warn(f"{where}schema_version {match[0]} is newer than 1.{_NEWEST}; some fields may not be shown")
        return match[0]

    def _step(self, raw: Any, index: int, where: str) -> StepView:
        here = f"{where}steps[{index - 1}]"
        if not isinstance(raw, dict):
            raise UserError(f"{self._name}: {here} is not an object; repair the file or leave the step out")
        fields = cast(dict[str, Any], raw)
        number, source = fields.get("step_id"), fields.get("source")
        if number != index:
            self._warn(f"{here}.step_id is {str(number)[:40]!r}, {index} was expected")
        if source not in ("system", "user", "agent"):
            self._warn(f"{here}.source is {str(source)[:40]!r}")
        results = _list(_object(fields.get("observation")).get("results"))
        commands = tuple(_command(_object(call)) for call in _list(fields.get("tool_calls")))
        self._check_links(fields, results, here)
        return StepView(
            number=index,
            source=_text(source),
            message=_content(fields.get("message")),
            reasoning=_text(fields.get("reasoning_content")),
            commands=commands,
            observation="\n".join(filter(None, (_content(_object(result).get("content")) for result in results))),
            metrics=_metrics(_object(fields.get("metrics")), ""),
            model=_text(fields.get("model_name")),
            timestamp=_text(fields.get("timestamp")),
            subagents=tuple(_references(results)),
            extra=_object(fields.get("extra")),
        )

    def _check_links(self, fields: dict[str, Any], results: list[Any], here: str) -> None:
        """A result that answers a call of another step, or of none (public reports: evener#8, NeMo#1663)."""
        known = {_object(call).get("tool_call_id") for call in _list(fields.get("tool_calls"))
                 if isinstance(_object(call).get("tool_call_id"), str)}
        for result in results:
            source = _object(result).get("source_call_id")
            if source is not None and (not isinstance(source, str) or source not in known):
                self._warn(f"{here}: a result belongs to the call {str(source)[:40]!r}, which is not in this step")

    def _warn(self, text: str) -> None:
        if len(self._warnings) < _MAX_WARNINGS:
            self._warnings.append(text)


def _command(call: dict[str, Any]) -> CommandView:
    arguments = call.get("arguments")
    fields = _object(arguments)
    keystrokes = fields.get("keystrokes")
    text = keystrokes if isinstance(keystrokes, str) else _dump(arguments)
    return CommandView(_text(call.get("function_name")), text, _number(fields.get("duration")))


def _dump(arguments: Any) -> str:
    if arguments is None or arguments == {}:
        return ""
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


def _references(results: list[Any]) -> Iterator[str]:
    for result in results:
        for reference in _list(_object(result).get("subagent_trajectory_ref")):
            fields = _object(reference)
            name = fields.get("trajectory_id") or fields.get("trajectory_path") or fields.get("session_id")
            if isinstance(name, str):
                yield name


def _content(value: Any) -> str:
    """Text, or a list of parts of which images are only named (ATIF 1.6)."""
    if not isinstance(value, list):
        return _text(value)
    parts = (_object(part) for part in cast(list[Any], value))
    return "\n".join(_text(part.get("text")) or f"[{_text(part.get('type')) or 'unknown'}]" for part in parts)


def _metrics(fields: dict[str, Any], prefix: str) -> MetricsView:
    def count(name: str) -> int | None:
        value = fields.get(prefix + name)
        return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None

    return MetricsView(count("prompt_tokens"), count("completion_tokens"), count("cached_tokens"),
                       _number(fields.get(prefix + "cost_usd")))


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _text(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else str(value)


def _object(value: Any) -> dict[str, Any]:
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return cast(list[Any], value) if isinstance(value, list) else []
