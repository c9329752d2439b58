from __future__ import annotations

import hashlib
import os
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modularrsi.digest import canonical_json, digest_bytes, digest_file, digest_text, digest_tree, digest_value

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def test_digests_are_plain_sha256() -> None:
    assert digest_bytes(b"abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert digest_text("abc") == digest_bytes(b"abc")
    assert digest_value({"b": 1, "a": [True, None]}) == digest_bytes(b'{"a":[true,null],"b":1}')


@given(JSON)
def test_order_of_keys_does_not_matter(value: Any) -> None:
    assert canonical_json(_reversed(value)) == canonical_json(value)


def _reversed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _reversed(value[key]) for key in reversed(list(value))}
    return [_reversed(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1: "a"}, {None: 1}, [b"x"], {"a": {2: 3}}, {1, 2}])
def test_what_json_lacks_is_refused(value: Any) -> None:
    with pytest.raises(ValueError):
        canonical_json(value)


def test_endless_nesting_is_refused() -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(ValueError):
        canonical_json(value)


def test_lone_surrogates_do_not_raise() -> None:
    assert canonical_json("a\ud800b") == '"a\ufffdb"'.encode()
    assert digest_text("a\ud800b") == digest_text("a\ufffdb")


def test_integers_floats_and_booleans_differ() -> None:
    assert len({digest_value(value) for value in (1, 1.0, True, "1")}) == 4


def test_large_file(tmp_path: Path) -> None:
    data = os.urandom(3_000_001)
    (tmp_path / "f").write_bytes(data)
    assert digest_file(tmp_path / "f") == hashlib.sha256(data).hexdigest()


def _tree(root: Path, names: list[str]) -> Path:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("content of " + name)
    return root


def test_tree_does_not_depend_on_order_or_times(tmp_path: Path) -> None:
    names = ["b/x.py", "a/y.py", "a.txt", "a/z/deep", "ü"]
    one, two = _tree(tmp_path / "one", names), _tree(tmp_path / "two", names[::-1])
    os.utime(one / "a.txt", (1, 1))
    (two / "empty").mkdir()
    assert digest_tree(one) == digest_tree(two)


def test_tree_sees_every_change(tmp_path: Path) -> None:
    root = _tree(tmp_path, ["a/b", "c"])
    seen = {digest_tree(root)}
    (root / "c").write_text("other")
    seen.add(digest_tree(root))
    (root / "c").rename(root / "d")
    seen.add(digest_tree(root))
    (root / "a" / "b").rename(root / "b")
    seen.add(digest_tree(root))
    assert len(seen) == 4


def test_tree_paths_and_contents_cannot_be_confused(tmp_path: Path) -> None:
    one, two = tmp_path / "1", tmp_path / "2"
    for root, files in ((one, {"a": "x", "b": ""}), (two, {"a": "", "b": "x"})):
        root.mkdir()
        for name, text in files.items():
            (root / name).write_text(text)
    assert digest_tree(one) != digest_tree(two)


def test_links_are_refused_or_hashed_never_followed(tmp_path: Path) -> None:
    root = _tree(tmp_path / "root", ["a"])
    secret = tmp_path / "secret"
    secret.write_text("1")
    (root / "link").symlink_to(secret)
    (root / "loop").symlink_to(root)
    with pytest.raises(ValueError, match="symbolic links"):
        digest_tree(root)
    before = digest_tree(root, links="hash")
    secret.write_text("2")
    assert digest_tree(root, links="hash") == before
    (root / "link").unlink()
    (root / "link").symlink_to("elsewhere")
    assert digest_tree(root, links="hash") != before


def test_pipes_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="neither a file nor a folder"):
        digest_tree(tmp_path)


def test_modes_count_only_when_asked(tmp_path: Path) -> None:
    root = _tree(tmp_path, ["run.sh"])
    plain, strict = digest_tree(root), digest_tree(root, modes=True)
    (root / "run.sh").chmod(0o755)
    assert digest_tree(root) == plain
    assert digest_tree(root, modes=True) != strict


def test_ignored_folders_are_not_entered(tmp_path: Path) -> None:
    root = _tree(tmp_path, ["a.py"])
    before = digest_tree(root)
    _tree(root, ["__pycache__/a.pyc", "x/__pycache__/b.pyc"])

    def is_cache(path: PurePosixPath) -> bool:
        return path.name == "__pycache__"

    assert digest_tree(root, ignore=is_cache) == before
    assert digest_tree(root) != before
