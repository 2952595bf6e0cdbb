"""Calls a server with the client that openapi-python-client generated: check.py SERVER USER"""

import sys

from ratekeeper_client import Client
from ratekeeper_client.api.default import check
from ratekeeper_client.models import Check, CheckDescriptor, Decision

client = Client(base_url=sys.argv[1])
for _ in range(4):
    descriptor = CheckDescriptor()
    descriptor["user"] = sys.argv[2]
    decision = check.sync(client=client, body=Check(domain="daily", descriptor=descriptor))
    assert isinstance(decision, Decision), decision
    long = 7 * 3600 * 1_000_000
    late = decision.reset_after_us > long, decision.retry_after_us > long
    print(decision.verdict, decision.remaining, decision.limit, *(str(one).lower() for one in late))
