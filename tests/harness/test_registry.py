"""Tags, and what a registry refuses."""

from __future__ import annotations

import pytest

from harness import types as harness_types
from harness.context import Context
from harness.errors import LibraryError
from harness.points import POINTS
from harness.registry import Registry, Tag, function, nearest
from harness.standins import STANDINS
from harness.types import Advice, Command, Decision, Routed, Turn

REFINE = {"module": "observation", "point": "refine", "describes": "test"}


def refine(text: str, ctx: Context) -> str:
    return text


def test_the_decorator_returns_the_function_itself_with_one_attribute() -> None:
    def plain(text: str, ctx: Context) -> str:
        return text

    before = set(vars(plain))
    marked = function(**REFINE, conflicts=["a/b"], needs=["c/d"], order=7)(plain)
    assert marked is plain
    assert set(vars(plain)) - before == {"__harness_tag__"}
    assert vars(plain)["__harness_tag__"] == Tag("observation", "refine", "test", "", ("a/b",), ("c/d",), 7)


def test_it_finds_what_was_added() -> None:
    registry = Registry()
    entry = registry.add(function(**REFINE)(refine), "modules/observation/refine/refine.py", "ab12")
    assert registry.get("observation/refine/refine") is entry
    assert (entry.point, entry.key, entry.digest) == ("observation/refine", "observation/refine/refine", "ab12")
    assert "observation/refine/refine" in registry
    assert len(registry) == 1


def test_functions_come_by_point_then_order_then_name() -> None:
    registry = Registry()
    for name, order in (("late", 90), ("b", 50), ("a", 50)):
        def made(text: str, ctx: Context) -> str:
            return text

        made.__name__ = name
        registry.add(function(**REFINE, order=order)(made))
    registry.add(STANDINS["agent_loop/drive"][0].call)
    assert [entry.name for entry in registry.functions()] == ["drive", "a", "b", "late"]
    assert [entry.name for entry in registry.functions("observation/refine")] == ["a", "b", "late"]


def test_an_unknown_key_names_the_nearest() -> None:
    registry = Registry()
    registry.add(function(**REFINE)(refine))
    with pytest.raises(LibraryError, match="did you mean 'observation/refine/refine'"):
        registry.get("observation/refine/refin")


def test_a_second_function_of_the_same_name_is_refused() -> None:
    registry = Registry()
    registry.add(function(**REFINE)(refine))
    with pytest.raises(LibraryError, match="observation/refine already has a 'refine'"):
        registry.add(function(**REFINE)(refine))


@pytest.mark.parametrize(
    ("tag", "message"),
    [
        ({"module": "observaton", "point": "refine"}, "unknown module 'observaton'; did you mean 'observation'"),
        ({"module": "observation", "point": "refin"}, "unknown point 'observation/refin'"),
        ({"module": "observation", "point": "drive"}, "unknown point 'observation/drive'"),
    ],
)
def test_a_place_that_does_not_exist_is_refused(tag: dict[str, str], message: str) -> None:
    with pytest.raises(LibraryError, match=message):
        Registry().add(function(**tag, describes="test")(refine))


def test_an_untagged_function_is_refused() -> None:
    def bare(text: str, ctx: Context) -> str:
        return text

    with pytest.raises(LibraryError, match="'bare' is not tagged"):
        Registry().add(bare)


@pytest.mark.parametrize(
    "path",
    ["modules/observation/refine/other.py", "modules/observation/limit/refine.py", "modules/tools/refine/refine.py"],
)
def test_a_tag_that_disagrees_with_its_file_is_refused(path: str) -> None:
    with pytest.raises(LibraryError, match=r"belongs into modules/observation/refine/refine\.py"):
        Registry().add(function(**REFINE)(refine), path)


def signatures() -> dict[str, object]:
    async def asynchronous(text: str, ctx: Context) -> str:
        return text

    def generator(text: str, ctx: Context):
        yield text

    def too_many(text: str, ctx: Context, extra: int = 0) -> str:
        return text

    def too_few(text: str) -> str:
        return text

    def renamed(output: str, ctx: Context) -> str:
        return output

    def swapped(ctx: Context, text: str) -> str:
        return text

    def keyword_only(text: str, *, ctx: Context) -> str:
        return text

    def positional_only(text: str, ctx: Context, /) -> str:
        return text

    def variadic(*text: str) -> str:
        return ""

    def wrong_parameter(text: bytes, ctx: Context) -> str:
        return ""

    def wrong_return(text: str, ctx: Context) -> Advice:
        return Advice(None)

    return dict(locals())


@pytest.mark.parametrize("name", signatures())
def test_a_signature_that_is_not_the_points_is_refused(name: str) -> None:
    target = signatures()[name]
    with pytest.raises(LibraryError, match=name if "wrong" not in name else "must be str"):
        Registry().add(function(**REFINE)(target))  # type: ignore[type-var]


def test_annotations_are_compared_by_their_last_name_and_may_be_missing() -> None:
    def dotted(turn: harness_types.Turn, ctx: Context) -> harness_types.Advice:
        return Advice(None)

    def bare(turn, ctx):
        return Advice(None)

    registry = Registry()
    for target in (dotted, bare):
        registry.add(function(module="completion", point="check", describes="test")(target))
    assert len(registry) == 2


def test_real_annotations_are_compared_like_their_texts() -> None:
    """A library file without `from __future__ import annotations` has classes where others have texts."""
    spaces: dict[str, object] = {"Routed": Routed, "Command": Command, "Turn": Turn, "Context": Context,
                                 "Decision": Decision, "Advice": Advice}
    exec(
        "from collections.abc import Sequence\n"
        "def typed(command: Command, ctx: Context) -> Routed: ...\n"
        "def folded(turn: Turn, advice: Sequence[Advice], ctx: Context) -> Decision: ...\n"
        "def wrong(turn: Turn, advice: Sequence[Turn], ctx: Context) -> Decision: ...\n",
        spaces,
    )
    registry = Registry()
    registry.add(function(module="tools", point="route", describes="")(spaces["typed"]))  # type: ignore[type-var]
    decide = function(module="completion", point="decide", describes="")
    registry.add(decide(spaces["folded"]))  # type: ignore[type-var]
    with pytest.raises(LibraryError, match=r"'advice' is annotated Sequence\[Turn\]"):
        registry.add(decide(spaces["wrong"]))  # type: ignore[type-var]


def test_the_standins_cover_every_point_that_must_have_one() -> None:
    registry = Registry()
    for entries in STANDINS.values():
        registry.add(entries[0].call)
    assert {entry.point for entry in registry.functions()} == {k for k, p in POINTS.items() if p.arity == "one"}


def test_nearest_says_nothing_when_nothing_is_near() -> None:
    assert nearest("zzz", ["abc"]) == ""
