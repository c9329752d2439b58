"""Options that several commands share, with one wording each."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output.")]
Model = Annotated[
    str | None,
    typer.Option("--model", "-m", help="The model's name, as its endpoint knows it; `simulated` needs no endpoint."),
]
BaseUrl = Annotated[
    str | None,
    typer.Option("--base-url", envvar="OPENAI_BASE_URL", help="The endpoint, if it is not OpenAI's own: https://host/v1."),
]
ApiKeyEnv = Annotated[
    str, typer.Option("--api-key-env", help="The NAME of the environment variable that holds the key.")
]
RunsDir = Annotated[Path, typer.Option("--runs-dir", envvar="MODULARRSI_RUNS", help="Where runs are kept.")]
