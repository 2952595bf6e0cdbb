"""Decisions over the Redis protocol, with redis-py.

    pip install redis
    python check.py USER [redis://127.0.0.1:6380]
"""

import math
import sys
import time

import redis

user = sys.argv[1]
address = sys.argv[2] if len(sys.argv) > 2 else "redis://127.0.0.1:6380"
# The pool of the client reuses connections. RESP 3 has maps, which redis-py returns as a dict.
client = redis.Redis.from_url(address, protocol=3, decode_responses=True, socket_timeout=1, socket_connect_timeout=1)


def check(domain: str, key: str) -> dict:
    """Decides one request by the rules of a domain."""
    return client.execute_command("RK.CHECK", domain, key)


for _ in range(4):
    decision = check("daily", user)
    if decision["verdict"] == "allow":
        print(f"daily: allow, {decision['remaining']} of {decision['limit']} left")
    else:
        print(f"daily: {decision['verdict']}, retry after {math.ceil(decision['retry_after_us'] / 1e6)} s")

for _ in range(3):
    while (decision := check("paced", user))["verdict"] != "allow":
        time.sleep(decision["retry_after_us"] / 1e6)
    # The request itself is sent here.
print("paced: 3 requests sent")

# The same with the limit in the call, as with redis-cell: 30 a minute and a burst of 15 beyond the first.
limited, limit, remaining, retry_after, reset_after = client.execute_command("CL.THROTTLE", f"call:{user}", 15, 30, 60)
print(f"throttle: {'deny' if limited else 'allow'}, {remaining} of {limit} left")
