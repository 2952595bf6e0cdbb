#!/usr/bin/env bash
# Decisions over HTTP, with curl and jq.
#
#   check.sh USER [http://127.0.0.1:8080]
set -euo pipefail
user=$1
server=${2:-http://127.0.0.1:8080}

check() { # domain
  curl -sS --fail-with-body --max-time 1 "$server/v1/check" \
    -d "$(jq -nc --arg domain "$1" --arg user "$user" '{domain: $domain, descriptor: {user: $user}}')"
}

for _ in 1 2 3 4; do
  check daily | jq -r '
    if .verdict == "allow" then "daily: allow, \(.remaining) of \(.limit) left"
    else "daily: \(.verdict), retry after \(.retry_after_us / 1e6 | ceil) s" end'
done

for _ in 1 2 3; do
  until decision=$(check paced) && [ "$(jq -r .verdict <<<"$decision")" = allow ]; do
    sleep "$(jq -r '.retry_after_us / 1e6' <<<"$decision")"
  done
  # The request itself is sent here.
done
echo "paced: 3 requests sent"
