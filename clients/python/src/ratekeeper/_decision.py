"""Decisions: what the server answers, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Verdict = Literal["allow", "deny", "never"]
_VERDICTS: Mapping[object, Verdict] = {"allow": "allow", "deny": "deny", "never": "never"}


@dataclass(frozen=True)
class RuleDecision:
    """The state of one rule of the policy."""

    name: str
    verdict: Verdict
    remaining: int
    limit: int
    retry_after_us: int | None
    reset_after_us: int
    shadow: bool = False


@dataclass(frozen=True)
class Decision:
    """The answer to one request. A refusal is a decision, not an exception.

    Times are exact, in microseconds; the properties without ``_us`` are the same in seconds.
    """

    verdict: Verdict
    wait_us: int = 0
    retry_after_us: int | None = 0
    """None if the cost exceeds the limit, so that a retry cannot succeed."""
    remaining: int | None = None
    """Of the rule that decided; None if no rule limits the request."""
    limit: int | None = None
    reset_after_us: int = 0
    decided_by: str | None = None
    policy: str | None = None
    source: str = "store"
    """Which part decided. ``client_open`` and ``client_closed``: the server did not answer, and ``on_failure`` decided."""
    rules: tuple[RuleDecision, ...] = ()
    lease: int | None = None
    """Under a concurrency rule: what ``release`` and ``heartbeat`` need."""
    held: bool | None = None
    at_ms: float = 0.0
    key: str = ""
    cost: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    """The fields ``ratelimit``, ``ratelimit-policy``, ``retry-after`` and ``x-ratelimit-*`` of the answer, to be passed on."""
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The whole answer, with fields that this version does not know."""

    @property
    def allowed(self) -> bool:
        return self.verdict == "allow"

    @property
    def wait(self) -> float:
        """Seconds that an allowed request has to wait: it has reserved permits, or a rule is shaped."""
        return self.wait_us / 1e6

    @property
    def retry_after(self) -> float | None:
        """Seconds after which the same request passes."""
        return None if self.retry_after_us is None else self.retry_after_us / 1e6

    @property
    def reset_after(self) -> float:
        """Seconds until the key is back in its initial state."""
        return self.reset_after_us / 1e6


def from_answer(answer: Mapping[str, Any], headers: Mapping[str, str]) -> Decision:
    """A decision from the JSON of the server. KeyError or TypeError if it is none."""
    return Decision(
        verdict=_verdict(answer["verdict"]),
        wait_us=answer["wait_us"],
        retry_after_us=answer["retry_after_us"],
        remaining=answer["remaining"],
        limit=answer["limit"],
        reset_after_us=answer["reset_after_us"],
        decided_by=answer["decided_by"],
        policy=answer["policy"],
        source=answer["source"],
        rules=tuple(
            RuleDecision(
                name=rule["name"],
                verdict=_verdict(rule["verdict"]),
                remaining=rule["remaining"],
                limit=rule["limit"],
                retry_after_us=rule["retry_after_us"],
                reset_after_us=rule["reset_after_us"],
                shadow=rule.get("shadow", False),
            )
            for rule in answer["rules"]
        ),
        lease=answer.get("lease"),
        held=answer.get("held"),
        at_ms=answer["at_ms"],
        key=answer["key"],
        cost=answer["cost"],
        headers={name.lower(): value for name, value in headers.items() if _about_limits(name.lower())},
        raw=answer,
    )


def _verdict(value: object) -> Verdict:
    return _VERDICTS[value]


def _about_limits(name: str) -> bool:
    return name == "retry-after" or name.startswith(("ratelimit", "x-ratelimit"))
