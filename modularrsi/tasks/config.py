"""`task.toml` as data: the task format of Harbor, schema 1.4, and the older spellings that tasks in the wild still use.

Types are strict (a number in quotes is a mistake), unknown keys are kept and reported as warnings, so that a task
written for a newer schema still loads and a misspelt key is still seen.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Self

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

NetworkMode = Literal["public", "no-network", "allowlist"]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
User = str | int | None

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", re.IGNORECASE)
_MEGABYTES = {"": 1 / 1024**2, "K": 1 / 1024, "M": 1, "G": 1024, "T": 1024**2}
_ABSOLUTE = re.compile(r"/(?!\.\.?(?:/|$))[^/\0]+(?:/(?!\.\.?(?:/|$))[^/\0]+)*/?")


def megabytes(text: str) -> int:
    """`"2G"` → 2048. Raises ValueError for anything but a positive number with K, M, G or T (a bare one is bytes)."""
    match = _SIZE.fullmatch(text.strip())
    size = float(match[1]) * _MEGABYTES[match[2].upper()] if match else 0.0
    if not 0 < size < 1e9:
        raise ValueError(f"{text!r} is not a size such as \"2G\" or \"512M\"")
    return max(1, round(size))


def _absolute(path: Any) -> Any:
    if isinstance(path, str) and not _ABSOLUTE.fullmatch(path):
        raise ValueError(f"{path!r} is not an absolute path below / without . and ..")
    return path


def _folder(path: Any) -> Any:
    return path if path == "/" else _absolute(path)


class Table(BaseModel):
    """A table of `task.toml`."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)


class Identity(Table):
    """`[task]`. `name` is `org/name` or `name`; without it the folder's name counts."""

    name: str | None = Field(default=None, pattern=r"^[A-Za-z0-9_][\w.-]*(/[A-Za-z0-9_][\w.-]*)?$")
    version: str | None = None
    description: str = ""
    authors: list[Any] = []
    keywords: list[str] = []


class Ours(Table):
    """`[metadata.modularrsi]`: what Harbor has no place for. `protected`: files and folders inside the sandbox that are
    put back before the tests run, whatever the agent did to them."""

    protected: list[Annotated[str, BeforeValidator(_absolute)]] = []


class Metadata(Table):
    """`[metadata]`: free, but for our own table."""

    modularrsi: Ours = Ours()


class Healthcheck(Table):
    """When the environment counts as ready; the semantics and defaults of Docker's HEALTHCHECK."""

    command: str
    interval_sec: Seconds = 5.0
    timeout_sec: Seconds = 30.0
    start_period_sec: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    start_interval_sec: Seconds = 5.0
    retries: int = Field(default=3, ge=1)


class McpServerConfig(Table):
    """`[[environment.mcp_servers]]`. `headers` are read and go nowhere: our harness only names the server."""

    name: str
    transport: Literal["stdio", "sse", "streamable-http"] = "sse"
    url: str = ""
    command: str = ""
    args: list[str] = []
    headers: dict[str, str] = {}

    @model_validator(mode="after")
    def _reachable(self) -> Self:
        wanted = "command" if self.transport == "stdio" else "url"
        if not getattr(self, wanted):
            raise ValueError(f"a server with transport {self.transport!r} needs {wanted}")
        return self


class Environment(Table):
    """`[environment]`. Older spellings: `memory = "2G"`, `storage = "10G"`, `allow_internet = true`."""

    build_timeout_sec: Seconds = 600.0
    docker_image: str | None = None
    os: Literal["linux", "windows"] = "linux"
    cpus: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    memory_mb: int | None = Field(default=None, gt=0)
    storage_mb: int | None = Field(default=None, gt=0)
    gpus: int = Field(default=0, ge=0)
    gpu_types: list[str] | None = None
    tpu: Any = None
    mcp_servers: list[McpServerConfig] = []
    env: dict[str, str] = {}
    skills_dir: str | None = None
    healthcheck: Healthcheck | None = None
    workdir: Annotated[str, BeforeValidator(_folder)] | None = None
    network_mode: NetworkMode | None = None
    allowed_hosts: list[str] = []

    @model_validator(mode="before")
    @classmethod
    def _older_spellings(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        fields = dict(value)
        for old, new in (("memory", "memory_mb"), ("storage", "storage_mb")):
            if isinstance(size := fields.pop(old, None), str):
                fields.setdefault(new, megabytes(size))
            elif size is not None:
                raise ValueError(f"{old} is text such as \"2G\"; for a number write {new}")
        if "allow_internet" in fields:
            fields["network_mode"] = _network_of(fields.pop("allow_internet"), fields.get("network_mode"))
        return fields


def _network_of(allow_internet: Any, mode: Any) -> Any:
    if not isinstance(allow_internet, bool):
        raise ValueError("allow_internet is true or false")
    old = "public" if allow_internet else "no-network"
    if mode not in (None, old):
        raise ValueError(f"allow_internet = {str(allow_internet).lower()} contradicts network_mode = {mode!r}")
    return old


class AgentConfig(Table):
    """`[agent]`. `timeout_sec` None = the task sets no limit."""

    timeout_sec: Seconds | None = None
    user: User = None
    network_mode: NetworkMode | None = None
    allowed_hosts: list[str] = []


class Collect(Table):
    """`[[verifier.collect]]`: a command to run before the tests are put in."""

    command: str
    service: str | None = None
    timeout_sec: Seconds = 60.0
    user: User = None


class _Verifier(Table):
    env: dict[str, str] = {}
    user: User = None
    network_mode: NetworkMode | None = None
    allowed_hosts: list[str] = []
    environment_mode: Literal["shared", "separate"] = "shared"
    environment: Environment | None = None
    collect: list[Collect] = []


class VerifierConfig(_Verifier):
    """`[verifier]`."""

    timeout_sec: Seconds = 600.0


class StepVerifier(_Verifier):
    """`[steps.verifier]`. `timeout_sec` None = as in `[verifier]`."""

    timeout_sec: Seconds | None = None


class Solution(Table):
    """`[solution]`."""

    env: dict[str, str] = {}


class StepConfig(Table):
    """`[[steps]]`. `min_reward`: the task ends when the step's reward (or one of its entries) is below it."""

    name: str = Field(pattern=r"^[A-Za-z0-9_][\w.-]*$")
    agent: AgentConfig = AgentConfig()
    verifier: StepVerifier = StepVerifier()
    min_reward: Finite | dict[str, Finite] | None = None
    healthcheck: Healthcheck | None = None
    artifacts: list[Any] = []


class TaskConfig(Table):
    """The whole of `task.toml`."""

    schema_version: str = Field(
        default="1.4", pattern=r"^1\.\d+$", validation_alias=AliasChoices("schema_version", "version")
    )
    source: str | None = None
    task: Identity = Identity()
    metadata: Metadata = Metadata()
    artifacts: list[Any] = []
    agent: AgentConfig = AgentConfig()
    verifier: VerifierConfig = VerifierConfig()
    environment: Environment = Environment()
    solution: Solution = Solution()
    steps: list[StepConfig] = []
    multi_step_reward_strategy: Literal["mean", "final"] = "mean"

    @model_validator(mode="after")
    def _steps_have_names_of_their_own(self) -> Self:
        names = [step.name for step in self.steps]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"two steps are called {twice[0]!r}; names of steps must differ")
        return self
