from __future__ import annotations

import base64
import hashlib
import json
import uuid
from collections.abc import Callable
from urllib.parse import quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modularrsi.redact import RULES, Redactor

CANARY = "canary/Key+with=odd chars&\"quote\"-7f3a"
WORD = "Ab3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zAb3dE5gH7jK9mN1pQ2rS4tU6"

# Put together at run time, so that no scanner of repositories takes this file for a leak.
KEYS = {
    "openai": "sk-" + "proj-" + WORD[:40],
    "openai legacy": "sk-" + WORD[:48],
    "openrouter": "sk-" + "or-v1-" + hashlib.sha256(b"x").hexdigest(),
    "anthropic": "sk-" + "ant-api03-" + WORD,
    "aws": "AKIA" + "QX7ZB2M4N6P8R0T1",
    "aws session": "ASIA" + "QX7ZB2M4N6P8R0T1",
    "github": "ghp" + "_" + WORD[:36],
    "github fine": "github" + "_pat_" + WORD[:22] + "_" + WORD[:30],
    "gitlab": "glpat" + "-" + WORD[:20],
    "google": "AIza" + "Sy" + WORD[:33],
    "google oauth": "ya29" + "." + WORD[:40],
    "slack": "xoxb" + "-123456789012-123456789012-" + WORD[:24],
    "huggingface": "hf" + "_" + WORD[:34],
    "stripe": "sk" + "_live_" + WORD[:24],
    "npm": "npm" + "_" + WORD[:36],
    "pypi": "pypi" + "-AgEIcHlwaS5vcmc" + WORD,
    "groq": "gsk" + "_" + WORD[:52],
    "xai": "xai" + "-" + WORD[:48],
    "jwt": "eyJ" + "hbGciOiJIUzI1NiJ9" + "." + "eyJ" + "zdWIiOiIxMjM0NTY3ODkwIn0" + "." + WORD[:43],
}

WRAPPERS: dict[str, Callable[[str], str]] = {
    "alone": lambda key: key,
    "sentence": lambda key: f"the key is {key}.",
    "shell": lambda key: f"export X='{key}'\n",
    "json": lambda key: json.dumps({"a": f"one\n{key}\ttwo"}),
    "json twice": lambda key: json.dumps(json.dumps({"a": f"one\n{key}\ttwo"})),
    "colour": lambda key: f"\x1b[31m{key}\x1b[0m",
    "colour mark": lambda key: f"\x1b[1;32m{key}\x1b[m",
    "url": lambda key: f"https://host/?k={key}&b=1",
    "two": lambda key: f"{key},{key}",
}


@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize("kind", KEYS)
def test_known_shapes_go(kind: str, wrapper: str) -> None:
    wrapped = WRAPPERS[wrapper](KEYS[kind])
    result = Redactor().text(wrapped)
    assert KEYS[kind][8:] not in result
    assert "[REDACTED:" in result
    assert result.startswith(wrapped[: wrapped.index(KEYS[kind])])


def test_at_least_ten_kinds() -> None:
    assert len({rule.kind for rule in RULES}) >= 12


PEM = "\n".join(["-----BEGIN RSA PRIVATE KEY-----", *["MIIEpAIBAAKCAQEA" + WORD[:48]] * 3, "short==",
                 "-----END RSA PRIVATE KEY-----"])


@pytest.mark.parametrize(
    "text",
    [
        PEM,
        PEM.replace("RSA ", "OPENSSH "),
        PEM.replace("RSA ", ""),
        json.dumps(PEM),
        PEM.replace("KEY-----\nMII", "KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,A1\n\nMII"),
        PEM[: PEM.index("short")],
    ],
)
def test_private_keys_go_whole_or_cut(text: str) -> None:
    result = Redactor().text(f"before {text} after")
    assert WORD[:20] not in result
    assert result.startswith("before ") and result.endswith(" after")


def test_prose_about_private_keys_stays() -> None:
    text = "A PEM file begins with -----BEGIN PRIVATE KEY----- and then some lines follow. -----BEGIN CERTIFICATE-----"
    assert Redactor().text(text) == text


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("Authorization: Bearer abc123def456ghi7", "abc123def456ghi7"),
        ("authorization: Basic dXNlcjpwYXNzd29yZA==", "dXNlcjpwYXNzd29yZA"),
        ('{"Authorization": "Bearer abc123def456ghi7"}', "abc123def456ghi7"),
        ("curl -H 'Authorization: token 0123456789abcdef0123'", "0123456789abcdef0123"),
        ("'Proxy-Authorization': 'Basic dXNlcjpwYXNzd29yZA=='", "dXNlcjpwYXNzd29yZA"),
        ("Bearer 0123456789abcdefghijkl", "0123456789abcdefghijkl"),
        ("MY_API_KEY=zq81kd93-aa", "zq81kd93-aa"),
        ("export FOO_API_KEY='zq81kd93aa'", "zq81kd93aa"),
        ('{"OPENAI_API_KEY": "zq81kd93aa"}', "zq81kd93aa"),
        (json.dumps(json.dumps({"X_API_KEY": "zq81kd93aa"})), "zq81kd93aa"),
        ("x-api-key: 0f9e8d7c6b5a", "0f9e8d7c6b5a"),
        ("aws_secret_access_key = wJalrXUtnFEMIqK7MDENGbPxRfiCYzzz", "wJalrXUtnFEMIqK7MDENGbPxRfiCYzzz"),
        ("AZURE_API_KEY=" + hashlib.md5(b"k").hexdigest(), hashlib.md5(b"k").hexdigest()),
        ("SERVICE_API_KEY=" + str(uuid.UUID(int=2**127 + 12345)), str(uuid.UUID(int=2**127 + 12345))),
    ],
)
def test_named_values_go(text: str, secret: str) -> None:
    result = Redactor().text(text)
    assert secret not in result
    assert text[:6] == result[:6]


INNOCENT = [
    str(uuid.UUID(int=0x2CDE2B542C304C21A787EA8780CC9D35)),
    f"sk-{uuid.UUID(int=0)}"[3:],
    "commit " + hashlib.sha1(b"a").hexdigest(),
    "sha256:" + hashlib.sha256(b"a").hexdigest(),
    "risk-assessment-of-a-very-long-hyphenated-document-name-2024",
    "pip install sk-learn-contrib-with-a-very-long-name-v2",
    "task-with-an-extremely-long-name-and-number-12345",
    "desk-0123456789abcdef0123456789",
    "disk-encryption-key-rotation-schedule-for-2025-q4",
    "api_key=settings.api_key",
    "api_key = os.environ.get('OPENAI_API_KEY')",
    'OPENAI_API_KEY="$OPENAI_API_KEY"',
    "OPENAI_API_KEY=<your key here>",
    "OPENAI_API_KEY=your_api_key_here",
    "export OPENAI_API_KEY=xxxxxxxxxxxxxxxx",
    "Authorization: Bearer $TOKEN",
    "Authorization: Bearer {token}",
    "the bearer of this letter, extraordinarily-longwordedness",
    "glpat- is the prefix of a token",
    "hf_hub_download(repo_id='some-org/some-model')",
    "from transformers import hf_transfer",
    "AKIA is a prefix; AKIAshort",
    "eyJhbGciOiJIUzI1NiJ9 alone is no token",
    "max_tokens: 4096, total_tokens=128000",
    "npm_config_registry=https://example.org/",
]


@pytest.mark.parametrize("text", INNOCENT)
def test_lookalikes_stay(text: str) -> None:
    assert Redactor().text(text) == text


@given(st.binary(min_size=200, max_size=4000))
@settings(max_examples=60)
def test_base64_of_files_stays(data: bytes) -> None:
    text = base64.encodebytes(data).decode()
    assert Redactor().text(text) == text


@pytest.mark.parametrize(
    "dress",
    [
        lambda s: s,
        quote_plus,
        lambda s: quote_plus(s).replace("%2F", "%2f").replace("%2B", "%2b").replace("%3D", "%3d"),
        lambda s: json.dumps({"k": s}),
        lambda s: json.dumps(json.dumps({"k": s})),
        lambda s: base64.b64encode(s.encode()).decode(),
        lambda s: base64.b64encode(b"user:" + s.encode() + b"!").decode(),
        lambda s: base64.b64encode(b"xuser:" + s.encode() + b"!!").decode(),
        lambda s: base64.urlsafe_b64encode(b"xxuser:" + s.encode()).decode(),
    ],
)
def test_exact_secret_goes_in_every_dress(dress: Callable[[str], str]) -> None:
    redactor = Redactor([CANARY], patterns=False)
    text = dress(CANARY)
    result = redactor.text(f"before {text} after")
    assert text not in result and "[REDACTED:secret]" in result
    assert result.startswith("before ") and result.endswith(" after")
    assert CANARY[7:20] not in result


@given(st.text(min_size=8, max_size=60), st.binary(max_size=5), st.binary(max_size=5))
def test_secret_inside_base64_goes(secret: str, before: bytes, after: bytes) -> None:
    secret = secret.strip()
    if len(secret.encode("utf-8", "replace")) < 10 or len(secret) < 8 or secret in "[REDACTED:secret]":
        return
    text = base64.b64encode(before + secret.encode("utf-8", "replace") + after).decode()
    assert "[REDACTED:secret]" in Redactor([secret]).text(text)


def test_short_and_empty_secrets_are_words() -> None:
    redactor = Redactor(["", "none", "EMPTY", "  "])
    assert redactor.text("none EMPTY of these") == "none EMPTY of these"


def test_repr_shows_no_secret() -> None:
    assert CANARY[:10] not in repr(Redactor([CANARY]))


def test_nested_json() -> None:
    value = {
        "messages": [{"content": f"key {CANARY} and {KEYS['github']}"}, ["x", {CANARY: 1}]],
        "api_key": "plain-but-named-9",
        "api_key_env": "OPENAI_API_KEY",
        "n": 3, "ok": None, "rate": 0.5, "t": True,
    }
    result = Redactor([CANARY]).value(value)
    text = json.dumps(result)
    assert CANARY[:12] not in text and KEYS["github"] not in text and "plain-but-named" not in text
    assert result["api_key_env"] == "OPENAI_API_KEY"
    assert (result["n"], result["ok"], result["rate"], result["t"]) == (3, None, 0.5, True)


def test_endless_nesting_ends() -> None:
    value: list[object] = []
    value.append(value)
    assert "[REDACTED:depth]" in json.dumps(Redactor([CANARY]).value(value))


def test_bytes_keep_what_is_no_key() -> None:
    data = bytes(range(256)) + KEYS["anthropic"].encode() + b"\xff\xfe\x00"
    # The byte before the key, 0xff, is no letter: the key is seen although nothing here is UTF-8.
    assert Redactor().data(data) == bytes(range(256)) + b"[REDACTED:anthropic]" + b"\xff\xfe\x00"
    clean = bytes(range(256)) * 3
    assert Redactor([CANARY]).data(clean) == clean


def test_non_ascii_secret_in_bytes() -> None:
    assert b"sch\xc3\xbcssel-wort" not in Redactor(["schüssel-wort"]).data("x schüssel-wort".encode())


@given(st.integers(1, 9000), st.integers(0, 3000))
@settings(max_examples=10, deadline=None)
def test_streams_find_keys_across_chunks(size: int, shift: int) -> None:
    lines = b"x" * shift + b"\n" + b"line of text\n" * 20_000
    middle = len(lines) // 2
    data = lines[:middle] + b" " + CANARY.encode() + b" " + KEYS["github"].encode() + b" " + lines[middle:]
    redactor = Redactor([CANARY])
    chunks = (data[i : i + size * 10] for i in range(0, len(data), size * 10))
    assert b"".join(redactor.stream(chunks)) == redactor.data(data)


PIECES = st.sampled_from(
    [*KEYS.values(), *INNOCENT, CANARY, PEM, "-", "_", ".", " ", "\\n", "[REDACTED:secret]", "Authorization: ",
     "Bearer ", "API_KEY=", "sk-", "eyJ", "\x1b[31m", "="]
)


@given(st.lists(PIECES | st.text(max_size=5), max_size=8).map("".join))
@settings(max_examples=300)
def test_redacting_twice_changes_nothing(text: str) -> None:
    redactor = Redactor([CANARY])
    once = redactor.text(text)
    assert redactor.text(once) == once
    assert CANARY not in once


HOSTILE = [
    CANARY, CANARY + " ",
    "sk-", "eyJ", "-eyJaaaaaaaaaaa", "sk-ant-", "authorization:", "API_KEY=", "Bearer ", "ghp_", "xoxb-", "a",
    "-----BEGIN PRIVATE KEY-----\nAAAAAAAAAAAAAAAAAAAA\n", "-----BEGIN A B C PRIVATE KEY", "[31meyJaaaaaaaaaaaa",
    "\\neyJaaaaaaaaaaaa-",
]  # fmt: skip


def test_a_key_right_behind_a_secret_goes_as_well() -> None:
    assert Redactor([CANARY]).text(CANARY + KEYS["openai"]) == "[REDACTED:secret][REDACTED:openai]"


@pytest.mark.parametrize("unit", HOSTILE)
def test_no_pattern_rescans_its_text(unit: str) -> None:
    """A quadratic pattern would need hours for this; a linear one a fraction of a second."""
    text = unit * (3_000_000 // len(unit))
    Redactor([CANARY]).text(text)
