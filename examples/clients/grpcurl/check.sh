#!/usr/bin/env bash
# Decisions of Envoy's rate limit service, with grpcurl and jq. grpcurl gets the message types by reflection.
#
#   check.sh USER [127.0.0.1:8081]
set -euo pipefail
user=$1
server=${2:-127.0.0.1:8081}

check() { # domain
  grpcurl -plaintext -max-time 5 -d "$(jq -nc --arg domain "$1" --arg user "$user" \
    '{domain: $domain, descriptors: [{entries: [{key: "user", value: $user}]}]}')" \
    "$server" envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit
}
retry_after='[.responseHeadersToAdd[] | select(.key == "retry-after").value][0]'

for _ in 1 2 3 4; do
  check daily | jq -r '
    if .overallCode == "OK" then
      "daily: allow, \(.statuses[0].limitRemaining // 0) of \(.statuses[0].currentLimit.requestsPerUnit) left"
    else "daily: deny, retry after \('"$retry_after"') s" end'
done

for _ in 1 2 3; do
  until answer=$(check paced) && [ "$(jq -r .overallCode <<<"$answer")" = OK ]; do
    sleep "$(jq -r "$retry_after" <<<"$answer")"
  done
  # The request itself is sent here.
done
echo "paced: 3 requests sent"
