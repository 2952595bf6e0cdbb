"""Errors: no decision could be had. A refused request is not one of them."""

from __future__ import annotations


class RatekeeperError(Exception):
    """The base of all errors of this package."""


class NoAnswer(RatekeeperError):
    """The server was not reached, did not answer in time, or answered 5xx: ``on_failure`` applies.

    The permits may have been taken if the request was sent, so it is not sent again.
    """


class Problem(RatekeeperError):
    """The server rejected the request as invalid or not permitted; ``detail`` says what would be accepted (RFC 9457)."""

    def __init__(self, status: int, title: str, detail: str, type: str = "about:blank") -> None:
        super().__init__(f"{status} {title}: {detail}" if detail else f"{status} {title}")
        self.status = status
        self.title = title
        self.detail = detail
        self.type = type
