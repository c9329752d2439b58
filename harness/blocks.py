"""The blocks of the first prompt that come from the task and the composition rather than from the grammar."""

from __future__ import annotations

from collections.abc import Sequence

from harness.registry import Function
from harness.types import McpServer, Skill


def helper_block(commands: Sequence[Function]) -> str:
    """What each active helper command does and how it is called; "" when there is none."""
    if not commands:
        return ""
    lines = ["Besides keystrokes you can use these commands:"]
    for command in commands:
        lines.append(f"- {command.name}: {command.tag.describes}")
        lines.extend(f"    {line}" for line in command.tag.usage.splitlines())
    return "\n".join(lines)


def mcp_block(servers: Sequence[McpServer]) -> str:
    """The task's MCP servers, one a line (public behaviour of Harbor's agents); "" when there is none."""
    if not servers:
        return ""
    return "\n".join(["MCP Servers:", *(_server(server) for server in servers)])


def _server(server: McpServer) -> str:
    if server.transport == "stdio":
        return f"- {server.name}: stdio transport, command: {' '.join((server.command, *server.args))}"
    return f"- {server.name}: {server.transport} transport, url: {server.url}"


def skills_block(skills: Sequence[Skill]) -> str:
    """The task's skills as an `<available_skills>` block; "" when there is none."""
    if not skills:
        return ""
    return "\n".join(["<available_skills>", *(_skill(skill) for skill in skills), "</available_skills>"])


def _skill(skill: Skill) -> str:
    fields = (("name", skill.name), ("description", skill.description), ("location", skill.location))
    inner = "\n".join(f"    <{name}>{_escape(value)}</{name}>" for name, value in fields)
    return f"  <skill>\n{inner}\n  </skill>"


def _escape(text: str) -> str:
    # `xml.sax.saxutils` and `html` would cost a tenth of the worker's start.
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
