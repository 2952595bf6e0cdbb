"""Decisions of Envoy's rate limit service, with grpcio.

    pip install grpcio grpcio-tools
    python -m grpc_tools.protoc -I crates/ratekeeper-server/proto --python_out=. --grpc_python_out=. \
        $(cd crates/ratekeeper-server/proto && find . -name '*.proto')
    python check.py USER [127.0.0.1:8081]
"""

import math
import sys
import time

import grpc
from envoy.extensions.common.ratelimit.v3.ratelimit_pb2 import RateLimitDescriptor
from envoy.service.ratelimit.v3.rls_pb2 import RateLimitRequest, RateLimitResponse
from envoy.service.ratelimit.v3.rls_pb2_grpc import RateLimitServiceStub

user = sys.argv[1]
address = sys.argv[2] if len(sys.argv) > 2 else "127.0.0.1:8081"
# One channel for all calls.
channel = grpc.insecure_channel(address)
service = RateLimitServiceStub(channel)


def should_rate_limit(domain: str, user: str) -> RateLimitResponse:
    """Decides one request with one descriptor."""
    entry = RateLimitDescriptor.Entry(key="user", value=user)
    request = RateLimitRequest(domain=domain, descriptors=[RateLimitDescriptor(entries=[entry])])
    return service.ShouldRateLimit(request, timeout=1)


def retry_after(response: RateLimitResponse) -> int:
    """Seconds until the same request passes, rounded up by the server."""
    return next(int(field.value) for field in response.response_headers_to_add if field.key == "retry-after")


for _ in range(4):
    response = should_rate_limit("daily", user)
    status = response.statuses[0]
    if response.overall_code == RateLimitResponse.OK:
        print(f"daily: allow, {status.limit_remaining} of {status.current_limit.requests_per_unit} left")
    else:
        print(f"daily: deny, retry after {retry_after(response)} s")

for _ in range(3):
    while (response := should_rate_limit("paced", user)).overall_code != RateLimitResponse.OK:
        time.sleep(retry_after(response))
    # The request itself is sent here.
print("paced: 3 requests sent")
channel.close()
