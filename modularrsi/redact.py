"""Keeps keys out of everything that is written: trajectories, logs, error messages, reports.

Two nets. The *exact* net knows the keys of this run and finds them in every dress that text puts on: URL-encoded,
JSON-escaped, base64 (alone or inside a longer base64 text). The *pattern* net knows the shapes of well-known kinds of
keys, for those that a task or a tool prints. A redacted key reads `[REDACTED:kind]`.

Shapes alone must not eat evidence: uuids, hashes, base64 file contents and words such as `sk-learn` stay. All
patterns run in linear time: each run of key characters is scanned once, because a match can only start where such a
run starts. Redacting twice changes nothing.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast
from urllib.parse import quote, quote_plus

MIN_SECRET = 8
"""Shorter "secrets" (`none`, `dummy`, `EMPTY` as the key of a local server) are not searched for: they are words."""

_MIN_BASE64 = 10
_MAX_DEPTH = 200
_WINDOW = 1 << 16

_SPACE = r"(?:\s|\\[nrt])"
_PEM_BODY = r"(?:[A-Za-z0-9+/=\s:,.]|\\[nrt/]|-(?!----))*+"
_PEM_LINES = rf"(?:{_SPACE}++[A-Za-z0-9+/=]{{16,}}+)++"
_QUOTE = r"(?:\\{0,3}[\"'])?"
_VALUE = r"(?P<key>[A-Za-z0-9+/_~.=-]{8,}+)"


@dataclass(frozen=True, slots=True)
class _Rule:
    """`needles`: lower-case words one of which the text must hold for the pattern to be tried at all. The group `key`
    of the pattern (or all of the match) goes, if `guard` agrees that it is a key."""

    kind: str
    needles: tuple[str, ...]
    pattern: re.Pattern[str]
    guard: Callable[[str], bool] | None = None


def _rule(kind: str, needles: str, pattern: str, guard: Callable[[str], bool] | None = None) -> _Rule:
    return _Rule(kind, tuple(needles.split()), re.compile(pattern, re.ASCII), guard)


def _key(kind: str, prefix: str, rest: str, guard: Callable[[str], bool] | None = None) -> _Rule:
    """A key that begins with `prefix`, where no key character precedes it; the `\n` of JSON-escaped text and a colour
    sequence do not count as such.

    The prefix comes first in the pattern and what precedes it is checked afterwards, since only then does `re` search
    for it at the speed of a plain search.
    """
    literal = re.escape(prefix)
    before = (r"(?<![A-Za-z0-9]{})", r"(?<=\\[nrtbf]{})", r"(?<=\[m{})", r"(?<=[\[;]\dm{})", r"(?<=[\[;]\d\dm{})")
    return _rule(kind, prefix.lower(), f"{literal}(?:{'|'.join(before).replace('{}', literal)}){rest}", guard)


def _random_run(key: str) -> bool:
    """A key has a long run of letters and digits mixed; `sk-some-long-hyphenated-name-2` has none."""
    return any(
        len(run) >= 16 and re.search(r"\d", run) and re.search(r"[A-Za-z]", run) for run in re.split(r"[-_]", key)
    )


def _no_placeholder(value: str) -> bool:
    """Not a name, a path of attributes or an example: `your_key_here`, `settings.api_key`, `xxxxxxxx`."""
    if re.search(r"(?i)your|example|placeholder|changeme|redacted|dummy", value) or len(set(value)) < 5:
        return False
    return re.fullmatch(r"[A-Za-z_]+(?:[._-][A-Za-z_]+)*", value) is None or len(value) >= 32


RULES = (
    _rule(
        "private_key", "private",
        rf"-----BEGIN (?:[A-Z0-9]{{1,20}} ){{0,3}}PRIVATE KEY(?: BLOCK)?-----"
        rf"(?:{_PEM_BODY}-----END [A-Z0-9 ]{{1,60}}-----|{_PEM_LINES})",
    ),
    _key("anthropic", "sk-ant-", r"[A-Za-z0-9_-]{20,}+", _random_run),
    _key("openai", "sk-", r"(?!ant-)[A-Za-z0-9_-]{20,}+", _random_run),
    *(_key("aws", prefix, r"[A-Z0-9]{16}(?![A-Za-z0-9])") for prefix in ("AKIA", "ASIA", "ABIA", "ACCA")),
    *(_key("github", prefix, r"[A-Za-z0-9]{36,}+") for prefix in ("ghp_", "gho_", "ghu_", "ghs_", "ghr_")),
    _key("github", "github_pat_", r"[A-Za-z0-9_]{22,}+"),
    _key("gitlab", "gl", r"(?:pat|dt|rt|ptt|cbt|soat|ft|agent|imt|oas)-[A-Za-z0-9_.-]{20,}+", _random_run),
    _key("google", "AIza", r"[A-Za-z0-9_-]{35,}+"),
    _key("google", "ya29.", r"[A-Za-z0-9_-]{20,}+"),
    _key("google", "GOCSPX-", r"[A-Za-z0-9_-]{20,}+"),
    _key("slack", "xox", r"[abeoprs]-(?=[0-9A-Za-z])[A-Za-z0-9-]{20,}+"),
    _key("slack", "xapp-", r"(?=[0-9A-Za-z])[A-Za-z0-9-]{20,}+"),
    _rule("slack", "hooks.slack.com", r"hooks\.slack\.com/services/(?P<key>[A-Za-z0-9/]{20,}+)"),
    _key("huggingface", "hf_", r"[A-Za-z0-9]{30,}+"),
    *(_key("stripe", prefix, r"(?:live|test)_[A-Za-z0-9]{16,}+") for prefix in ("sk_", "rk_", "pk_")),
    _key("npm", "npm_", r"[A-Za-z0-9]{36,}+"),
    _key("pypi", "pypi-AgE", r"[A-Za-z0-9_-]{40,}+"),
    _key("groq", "gsk_", r"[A-Za-z0-9]{40,}+"),
    _key("xai", "xai-", r"[A-Za-z0-9]{40,}+"),
    _key("jwt", "eyJ", r"(?<![_-]eyJ)[A-Za-z0-9_-]{10,}+\.eyJ[A-Za-z0-9_-]{10,}+\.[A-Za-z0-9_-]*+"),
    _rule(
        "authorization", "authorization",
        rf"(?i:authorization){_QUOTE}[ \t]{{0,8}}[:=][ \t]{{0,8}}{_QUOTE}(?:[A-Za-z-]{{3,20}}[ \t]{{1,8}})?{_VALUE}",
        _no_placeholder,
    ),
    _rule("authorization", "bearer", r"(?i:\bbearer)[ \t]{1,8}(?P<key>[A-Za-z0-9+/_~.=-]{20,}+)", _random_run),
    _rule(
        "api_key", "api_key api-key apikey secret_key access_key access_token auth_token api_token",
        r"(?i:api[_-]?key|secret_key|access_key|access_token|auth_token|api_token)"
        rf"{_QUOTE}[ \t]{{0,8}}[:=][ \t]{{0,8}}{_QUOTE}{_VALUE}",
        _no_placeholder,
    ),
)
_KEY_NAME = re.compile(
    r"(?i)(?:^|[_-])(?:api[_-]?key|secret[_-]key|access[_-]key|(?:access|auth|api)[_-]token|authorization)$"
)


_SHORTEST = 16  # `api_key=` and eight characters; every other shape is longer
_NAME = 64


class Redactor:
    """Redacts `secrets` exactly and, unless `patterns` is False, everything that has the shape of a known key.

    The object never shows what it knows: its repr counts the secrets.
    """

    def __init__(self, secrets: Iterable[str] = (), *, patterns: bool = True) -> None:
        known = {secret.strip() for secret in secrets}
        known = {secret for secret in known if len(secret) >= MIN_SECRET and secret not in "[REDACTED:secret]"}
        forms = sorted({form for secret in known for form in _forms(secret)}, key=lambda form: (-len(form), form))
        self._exact = re.compile("|".join(map(re.escape, forms))) if forms else None
        self._rules = RULES if patterns else ()
        self._count = len(known)

    def __repr__(self) -> str:
        return f"Redactor({self._count} secrets, patterns={bool(self._rules)})"

    def text(self, text: str) -> str:
        spans = self._spans(text)
        if not spans:
            return text
        parts: list[str] = []
        end = 0
        for start, stop, kind in spans:
            parts += text[end:start], f"[REDACTED:{kind}]"
            end = stop
        return "".join(parts) + text[end:]

    def data(self, data: bytes) -> bytes:
        """Bytes of any encoding that holds ASCII; every byte outside a key is kept as it is."""
        return self.text(data.decode("latin-1")).encode("latin-1")

    def stream(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """As `data`, in bounded memory: a key that is cut by a chunk's border is found, up to 64 KiB of length."""
        held = ""
        for chunk in chunks:
            held += chunk.decode("latin-1")
            if len(held) > 2 * _WINDOW:
                cut = self._cut(held)
                yield self.text(held[:cut]).encode("latin-1")
                held = held[cut:]
        yield self.text(held).encode("latin-1")

    def value(self, value: Any) -> Any:
        """A redacted copy of a JSON value: every text, every key of an object, and what a key named `*api_key` holds.

        What is nested deeper than 200 levels is replaced as a whole.
        """
        return self._value(value, 0)

    def _value(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, (dict, list, tuple)) and depth >= _MAX_DEPTH:
            return "[REDACTED:depth]"
        if isinstance(value, dict):
            items = cast(dict[Any, Any], value).items()
            return {self._value(key, depth): self._member(key, item, depth + 1) for key, item in items}
        if isinstance(value, (list, tuple)):
            return [self._value(item, depth + 1) for item in cast(list[Any], value)]
        return value

    def _member(self, key: Any, item: Any, depth: int) -> Any:
        named = self._rules and isinstance(key, str) and isinstance(item, str) and _KEY_NAME.search(key)
        if named and re.fullmatch(_VALUE, item) and _no_placeholder(item):
            return "[REDACTED:api_key]"
        return self._value(item, depth)

    def _spans(self, text: str) -> list[tuple[int, int, str]]:
        """(start, end, kind) of what has to go, in order, without overlaps."""
        exact = [(m.start(), m.end(), "secret") for m in self._exact.finditer(text)] if self._exact else []
        found = exact + self._shapes(text, 0)
        end = 0
        for start, stop, _ in exact:
            # Where a secret goes, what stood next to it begins or ends a word: look at the pieces as well.
            found += self._shapes(text[end:start], end)
            end = stop
        return _merge(found + self._shapes(text[end:], end) if exact else found)

    def _shapes(self, text: str, offset: int) -> list[tuple[int, int, str]]:
        if not self._rules or len(text) < _SHORTEST:
            return []
        found = _shapes_of_a_name(text) if len(text) <= _NAME else _shapes_of(text)
        return [(start + offset, stop + offset, kind) for start, stop, kind in found]

    def _cut(self, held: str) -> int:
        """Where a stream may be cut: a window before its end, and not inside something to be redacted."""
        cut = len(held) - _WINDOW
        for start, stop, _ in self._spans(held):
            if start < cut < stop:
                return start or stop
        return cut


def _shapes_of(text: str) -> tuple[tuple[int, int, str], ...]:
    lower = text.lower()
    return tuple(
        (start, stop, rule.kind)
        for rule in RULES
        if any(needle in lower for needle in rule.needles)
        for start, stop in _matches(rule, text)
    )


# A record repeats the names of its functions on every turn.
_shapes_of_a_name = lru_cache(maxsize=4_096)(_shapes_of)


def _matches(rule: _Rule, text: str) -> Iterator[tuple[int, int]]:
    group = "key" if "key" in rule.pattern.groupindex else 0
    for match in rule.pattern.finditer(text):
        if rule.guard is None or rule.guard(match[group]):
            yield match.span(group)


def _merge(found: list[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    merged: list[tuple[int, int, str]] = []
    for start, stop, kind in sorted(found, key=lambda span: (span[0], -span[1])):
        if merged and start < merged[-1][1]:
            first, last, name = merged[-1]
            merged[-1] = (first, max(last, stop), name)
        else:
            merged.append((start, stop, kind))
    return merged


def _forms(secret: str) -> Iterator[str]:
    """Every dress of one secret."""
    raw = secret.encode("utf-8", "replace")
    escaped = json.dumps(secret)[1:-1]
    yield from (secret, raw.decode("latin-1"), escaped, json.dumps(secret, ensure_ascii=False)[1:-1])
    yield from (escaped.replace("/", "\\/"), json.dumps(escaped)[1:-1])
    for encoded in (quote(secret, safe=""), quote(secret), quote_plus(secret)):
        yield encoded
        yield re.sub(r"%[0-9A-F]{2}", lambda match: match[0].lower(), encoded)
    for offset in range(3):
        core = _base64_core(raw, offset)
        if len(core) >= _MIN_BASE64:
            yield core
            yield core.replace("+", "-").replace("/", "_")
            yield core.replace("/", "\\/")


def _base64_core(raw: bytes, offset: int) -> str:
    """The base64 characters that depend on `raw` alone when `offset` (0–2) bytes precede it in its group of three."""
    encoded = base64.b64encode(b"\0" * offset + raw).decode("ascii")
    first = (offset * 8 + 5) // 6
    return encoded[first : (offset + len(raw)) * 8 // 6]
