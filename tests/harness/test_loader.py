"""Libraries on disk: content, places, digests, and two generations at once."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest
from support.libraries import HEADER, MINIMAL, source, write_library, write_manifest

from harness.composition import Composition
from harness.errors import LibraryError
from harness.kernel import Rollout
from harness.loader import load_library
from harness.scripted import ScriptedModel, ScriptedSandbox, ScriptedTerminal
from harness.standins import STANDINS
from harness.types import Task

LIMIT = "modules/observation/limit/cut.py"
SIGNATURE = "text: str, ctx: Context"


def limit(body: str, name: str = "cut") -> str:
    return source("observation/limit", name, SIGNATURE, body)


def test_a_library_loads_with_its_digests(tmp_path: Path) -> None:
    library = load_library(write_library(tmp_path, MINIMAL))
    assert {f"modules/{entry.key}.py" for entry in library.registry.functions()} == set(MINIMAL)
    assert set(library.files) == set(MINIMAL)
    for entry in library.registry.functions():
        assert entry.digest == library.files[entry.source_path]


def test_the_digest_is_of_content_only(tmp_path: Path) -> None:
    first = load_library(write_library(tmp_path / "a", MINIMAL))
    second = write_library(tmp_path / "b", dict(reversed(MINIMAL.items())))
    for path in second.rglob("*.py"):
        os.utime(path, (1, 1))
    cache = second / "modules/tools/route/__pycache__"
    cache.mkdir()
    (cache / "route.cpython-311.pyc").write_bytes(b"junk")
    assert load_library(second).digest == first.digest
    path = second / "modules/tools/route/route.py"
    path.write_text(path.read_text() + "\n")
    assert load_library(second).digest != first.digest


def test_a_renamed_file_changes_the_digest(tmp_path: Path) -> None:
    text = source("observation/refine", "a", SIGNATURE, "return text")
    first = load_library(write_library(tmp_path / "a", {"modules/observation/refine/a.py": text}))
    other = text.replace("def a(", "def b(")
    second = load_library(write_library(tmp_path / "b", {"modules/observation/refine/b.py": other}))
    assert first.digest != second.digest


def test_two_generations_live_side_by_side(tmp_path: Path) -> None:
    def rollout(root: Path, word: str) -> Rollout:
        capture = source("observation/capture", "capture", "ctx: Context", f"return Snapshot({word!r} + WORD)")
        capture = capture.replace("@function", f"WORD = {word!r}\n@function", 1)
        library = load_library(write_library(root, MINIMAL, {"modules/observation/capture/capture.py": capture}))
        return Rollout(
            Composition.default(library.registry).resolve(library.registry),
            ScriptedModel(['{"commands": []}']),
            ScriptedTerminal(),
            ScriptedSandbox(),
            lambda params: None,
            Task("do it"),
        )

    old, new = rollout(tmp_path / "old", "old"), rollout(tmp_path / "new", "new")
    old.drive(), new.drive()
    assert old.state.turns[0].observation == "oldold"
    assert new.state.turns[0].observation == "newnew"


def test_nothing_of_it_is_on_the_path_and_no_byte_code_is_written(tmp_path: Path) -> None:
    path = list(sys.path)
    library = load_library(write_library(tmp_path, MINIMAL))
    assert sys.path == path
    assert not list(tmp_path.rglob("__pycache__"))
    names = [name for name in sys.modules if name.startswith(f"_harness_lib_{library.digest[:12]}_")]
    assert f"_harness_lib_{library.digest[:12]}_tools_route_route" in names
    assert len(names) == len(MINIMAL)


def test_only_what_is_asked_for_is_imported_but_all_of_it_is_verified(tmp_path: Path) -> None:
    root = write_library(tmp_path, MINIMAL, {LIMIT: "raise SystemExit('must not run')\n"})
    whole = set(MINIMAL) | {LIMIT}
    library = load_library(root, {"observation/limit/limit", "tools/route/route"})
    assert [entry.name for entry in library.registry.functions()] == ["limit", "route"]
    assert set(library.files) == whole
    assert library.registry.knows("observation/limit/cut") and "observation/limit/cut" not in library.registry
    assert len(library.registry.known()) == len(whole)
    write_manifest(root)
    (root / LIMIT).write_text("")
    with pytest.raises(LibraryError, match=r"cut\.py: sha256"):
        load_library(root, {"tools/route/route"})


def test_relations_to_functions_that_are_not_imported_can_be_checked(tmp_path: Path) -> None:
    text = source("observation/refine", "a", SIGNATURE, "return text", conflicts=["refine/b"], needs=["limit/nope"])
    other = source("observation/refine", "b", SIGNATURE, "return text")
    root = write_library(
        tmp_path, MINIMAL, {"modules/observation/refine/a.py": text, "modules/observation/refine/b.py": other}
    )
    composition = Composition({
        **{entry.point: (entry.name,) for entries in STANDINS.values() for entry in entries},
        "observation/refine": ("a",),
    })
    problems = composition.problems(load_library(root, composition.keys()).registry)
    assert len(problems) == 1 and problems[0].startswith("observation/refine/a needs 'limit/nope': there is no such")


def test_a_function_file_may_hold_dataclasses(tmp_path: Path) -> None:
    body = limit("return Cut(3).of(text)").replace(
        "@function",
        "from dataclasses import dataclass\n@dataclass(slots=True)\nclass Cut:\n    size: int\n"
        "    def of(self, text: str) -> str:\n        return text[:self.size]\n@function",
        1,
    )
    library = load_library(write_library(tmp_path, {LIMIT: body}))
    assert library.registry.get("observation/limit/cut").call("abcdef", None) == "abc"


# ------------------------------------------------------------------------------------------------------------ manifest


def test_a_frozen_library_loads_while_it_is_untouched(tmp_path: Path) -> None:
    write_library(tmp_path, MINIMAL, {"composition.json": "{}", "certificate.json": "{}"})
    assert write_manifest(tmp_path)
    load_library(tmp_path)


@pytest.mark.parametrize("name", ["modules/tools/route/route.py", "composition.json", "certificate.json"])
def test_a_tampered_file_is_refused_by_name(tmp_path: Path, name: str) -> None:
    write_library(tmp_path, MINIMAL, {"composition.json": "{}", "certificate.json": "{}"})
    write_manifest(tmp_path)
    (tmp_path / name).write_text((tmp_path / name).read_text() + " ")
    with pytest.raises(LibraryError, match=f"{name}: sha256 is"):
        load_library(tmp_path)


def test_an_added_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    write_library(tmp_path, MINIMAL)
    write_manifest(tmp_path)
    extra = write_library(tmp_path, {LIMIT: limit("return text")}) / LIMIT
    with pytest.raises(LibraryError, match=f"{LIMIT}: not listed"):
        load_library(tmp_path)
    extra.unlink()
    (tmp_path / "modules/tools/route/route.py").unlink()
    with pytest.raises(LibraryError, match=r"route\.py: listed in manifest.json but missing"):
        load_library(tmp_path)


@pytest.mark.parametrize("text", ["", "[]", '{"files": []}', '{"files": {"a": 1}}', "{}"])
def test_an_unreadable_manifest_is_refused(tmp_path: Path, text: str) -> None:
    write_library(tmp_path, MINIMAL, {"manifest.json": text})
    with pytest.raises(LibraryError, match=r"manifest\.json: unreadable"):
        load_library(tmp_path)


@pytest.mark.parametrize("name", ["../outside.txt", "/etc/hostname"])
def test_a_manifest_cannot_point_outside(tmp_path: Path, name: str) -> None:
    root = write_library(tmp_path / "library", MINIMAL)
    files = write_manifest(root)
    (root / "manifest.json").write_text(str({"files": {**files, name: "0" * 64}}).replace("'", '"'))
    with pytest.raises(LibraryError, match="outside the library"):
        load_library(root)


# ------------------------------------------------------------------------------------------------------------- refused


def test_a_folder_that_is_no_library_is_named(tmp_path: Path) -> None:
    with pytest.raises(LibraryError, match="not a library"):
        load_library(tmp_path / "nowhere")


@pytest.mark.parametrize("inside", [True, False])
def test_a_linked_file_is_refused(tmp_path: Path, inside: bool) -> None:
    root = write_library(tmp_path / "library", MINIMAL)
    target = (root if inside else tmp_path) / "elsewhere.txt"
    target.write_text(limit("return text"))
    (root / "modules/observation/limit/cut.py").symlink_to(target)
    with pytest.raises(LibraryError, match=r"limit/cut\.py: symbolic links are not allowed"):
        load_library(root)


@pytest.mark.parametrize("name", ["modules", "modules/observation/limit", "composition.json"])
def test_a_linked_folder_or_default_is_refused(tmp_path: Path, name: str) -> None:
    root = write_library(tmp_path / "library", MINIMAL, {"composition.json": "{}"})
    moved = tmp_path / "moved"
    (root / name).rename(moved)
    (root / name).symlink_to(moved)
    with pytest.raises(LibraryError, match="symbolic links are not allowed"):
        load_library(root)


def test_a_pipe_is_refused_and_does_not_hang(tmp_path: Path) -> None:
    root = write_library(tmp_path, MINIMAL)
    os.mkfifo(root / LIMIT)
    with pytest.raises(LibraryError, match="not a regular file"):
        load_library(root)


@pytest.mark.parametrize(
    "name",
    ["modules/notes.txt", "modules/observation/limit/data.json", "modules/observation/limit/deep/cut.py",
     "modules/loose.py"],
)
def test_a_file_in_the_wrong_place_is_refused(tmp_path: Path, name: str) -> None:
    write_library(tmp_path, MINIMAL, {name: ""})
    with pytest.raises(LibraryError, match=f"{name.removesuffix('/cut.py')}.*: a library holds"):
        load_library(tmp_path)


def test_a_folder_that_is_no_point_is_refused(tmp_path: Path) -> None:
    write_library(tmp_path, MINIMAL, {"modules/observation/limits/cut.py": limit("return text")})
    with pytest.raises(LibraryError, match=r"limits/cut\.py: unknown point 'observation/limits'; did you mean"):
        load_library(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def cut(:\n", r"limit/cut\.py:1: syntax error"),
        ("x = 1\nx = = 2\n", r"limit/cut\.py:2: syntax error"),
        ("x = 1\n\nraise ValueError('boom')\n", r"limit/cut\.py:3: ValueError on import: boom"),
        ("import no_such_module_here\n", r"limit/cut\.py:1: ModuleNotFoundError"),
        ("import sys\nsys.exit(0)\n", r"limit/cut\.py:2: SystemExit on import"),
        ("x = 1\n", "holds no tagged functions"),
        ("x = '\0'\n", r"limit/cut\.py:1:"),
        ("(" * 500, r"limit/cut\.py:1:"),
        (limit("return text") + limit("return text", "second").removeprefix(HEADER), "holds 2 tagged functions"),
        (limit("return text", "other"), r"belongs into modules/observation/limit/other\.py"),
        ("from harness.standins import limit\n", "holds no tagged functions"),
        (source("observation/limit", "cut", "text: str", "return text"), r"observation/limit wants cut\(text, ctx\)"),
    ],
)
def test_a_bad_file_is_named_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    write_library(tmp_path, MINIMAL, {LIMIT: text})
    with pytest.raises(LibraryError, match=message):
        load_library(tmp_path)


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    root = write_library(tmp_path, {LIMIT: ""})
    (root / LIMIT).write_bytes(b"x = '\xff\xfe'\n")
    with pytest.raises(LibraryError, match=r"limit/cut\.py"):
        load_library(root)


def test_an_alias_of_the_function_is_not_a_second_one(tmp_path: Path) -> None:
    library = load_library(write_library(tmp_path, {LIMIT: limit("return text") + "alias = cut\n"}))
    assert len(library.registry) == 1


def test_an_object_that_claims_every_attribute_is_no_function(tmp_path: Path) -> None:
    trick = "class Any_:\n    def __getattr__(self, name): return 1\n    def __call__(self): ...\nthing = Any_()\n"
    library = load_library(write_library(tmp_path, {LIMIT: limit("return text") + trick}))
    assert len(library.registry) == 1


def test_a_library_can_be_moved_after_loading(tmp_path: Path) -> None:
    root = write_library(tmp_path / "a", MINIMAL)
    digest = load_library(root).digest
    shutil.move(root, tmp_path / "b")
    assert load_library(tmp_path / "b").digest == digest
