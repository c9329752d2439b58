"""What a worker may ask of the model: messages, nothing else.

Model, temperature, reasoning effort, output limit and every budget are the engine's. A worker that asks too often is
answered "stopped"; a service or a budget that fails is remembered as the owner of the session's end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from harness.errors import WireError
from harness.types import Limits
from modularrsi.errors import BudgetExhausted, Failure, ModelServiceError, Owner
from modularrsi.gateway.errors import ContentFilteredError, ContextOverflowError, ReplyTruncatedError
from modularrsi.gateway.gateway import Gateway
from modularrsi.gateway.messages import ChatMessage
from modularrsi.recorder.recorder import Recorder
from modularrsi.session.refusal import Refused

_ROLES = ("system", "user", "assistant")
_MAX_MESSAGES = 10_000

# Summaries and the like come on top of turns; a harness that labels its turns as something else meets this bound.
_CALLS_PER_TURN = 6
_CALLS_BESIDE = 24


class ModelPort:
    """Serves `model.complete` for one session.

    `turns` counts replies, cut-off ones included: a request that the service refused is no turn. `failure` is set while
    the last call failed for a reason that is not the agent's, and cleared by the next one that succeeds. `stop_run`:
    no other rollout could do better, for a cap is reached or the service refuses the key.
    """

    def __init__(
        self, gateway: Gateway, scope: str, recorder: Recorder, limits: Limits, first_ordinal: int = 0
    ) -> None:
        self._gateway, self._scope, self._recorder, self._limits = gateway, scope, recorder, limits
        self.turns = 0
        self._answers = 0
        self.calls = first_ordinal
        self.failure: Failure | None = None
        self.stop_run = False

    @property
    def lost(self) -> float:
        """Seconds that were not the agent's: the service failed, or a call waited for its turn at a limit."""
        return self._gateway.lost(self._scope)

    async def complete(self, params: dict[str, Any]) -> dict[str, Any]:
        messages = _messages(params["messages"])
        purpose = params.get("purpose", "turn")[:40]
        self._check(purpose)
        self._recorder.request([{"role": m.role, "content": m.content} for m in messages], purpose)
        try:
            reply = await self._gateway.complete(
                "solver", messages, scope=self._scope, ordinal=self.calls, purpose=purpose
            )
        except ReplyTruncatedError as error:
            self._answered(purpose)
            self._recorder.reply(error.text, "", error.usage, error.cost_usd, error.model, "length")
            raise Refused("reply_truncated", str(error), text=error.text) from error
        except ContextOverflowError as error:
            raise self._refuse("context_overflow", error, None) from error
        except ModelServiceError as error:
            failure = Failure(self._owner(error), error.cause, str(error))
            # Not 403: some services answer that to a single prompt that they will not touch.
            self.stop_run = error.cause == "auth" and str(error).startswith("HTTP 401")
            raise self._refuse("model_unavailable", error, failure) from error
        except BudgetExhausted as error:
            self.stop_run = True
            raise self._refuse("stopped", error, Failure("engine", "budget", str(error))) from error
        finally:
            self.calls += 1
        self._answered(purpose)
        self._recorder.reply(
            reply.text, reply.reasoning, reply.usage, reply.cost_usd, reply.model, reply.finish_reason
        )
        usage = reply.usage
        return {
            "text": reply.text,
            "reasoning": reply.reasoning,
            "usage": {
                "prompt_tokens": usage.prompt_tokens,
                "completion_tokens": usage.completion_tokens,
                "cached_tokens": usage.cached_tokens,
            },
        }

    def _check(self, purpose: str) -> None:
        """Refuse the call when the session has had all its turns. The label is the worker's own word, so all calls
        together, refused ones as well, have a bound of their own."""
        used = purpose == "turn" and self.turns >= self._limits.max_turns
        if used or self.calls >= _CALLS_PER_TURN * self._limits.max_turns + _CALLS_BESIDE:
            raise Refused("stopped", f"all {self._limits.max_turns} turns are used up")

    def _answered(self, purpose: str) -> None:
        self.turns += purpose == "turn"
        self.failure = None
        self._answers += 1

    def _owner(self, error: ModelServiceError) -> Owner:
        """A service that has answered this session and now refuses one request refuses what the harness put into it:
        were that nobody's fault, a harness could trade a zero for an unscored rollout by asking the impossible."""
        refused = error.cause == "bad_request" or isinstance(error, ContentFilteredError)
        return "agent" if refused and self._answers else "model_service"

    def _refuse(self, kind: str, error: Exception, failure: Failure | None) -> Refused:
        self.failure = failure
        self._recorder.model_error(kind, str(error))
        return Refused(kind, str(error))


def _messages(items: Sequence[Any]) -> list[ChatMessage]:
    if not items or len(items) > _MAX_MESSAGES:
        raise WireError(f"model.complete: between 1 and {_MAX_MESSAGES} messages")
    return [_message(item) for item in items]


def _message(item: Any) -> ChatMessage:
    if isinstance(item, dict):
        fields = cast(dict[Any, Any], item)
        role, content = fields.get("role"), fields.get("content")
        if set(fields) == {"role", "content"} and role in _ROLES and isinstance(content, str):
            return ChatMessage(role, content)
    raise WireError('model.complete: a message is {"role": "system"|"user"|"assistant", "content": text}')
