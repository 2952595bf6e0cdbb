"""Client for the ratekeeper rate limiter.

``Client`` is synchronous and needs the standard library only. ``AsyncClient`` (in ``ratekeeper.aio``) needs httpx:
``pip install ratekeeper[asyncio]``. ``ratekeeper.asgi`` has middleware for FastAPI and Starlette.
"""

from ._client import Client
from ._decision import Decision, RuleDecision, Verdict
from ._errors import NoAnswer, Problem, RatekeeperError
from ._request import OnFailure

__all__ = ["Client", "Decision", "NoAnswer", "OnFailure", "Problem", "RatekeeperError", "RuleDecision", "Verdict"]
__version__ = "0.1.0"
