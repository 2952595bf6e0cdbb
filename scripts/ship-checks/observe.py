"""Runs every query of the Grafana dashboard and every rule against a real Prometheus that scrapes two real servers.

usage: observe.py RATEKEEPER_BINARY

A server on Redis and one in memory get bounded load (some hundred requests a second, for about 20 s) on HTTP and RESP. Then
each query of deploy/grafana/ratekeeper.json, variables and annotations included, has to succeed and return data, and the rules
of deploy/prometheus/rules.yaml have to evaluate without an error. Only loopback is used. Needs prometheus and redis-server.
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

RULES = """
domain: api
policies:
  - name: per-user
    match: { user: "*" }
    rules:
      - { name: burst, algorithm: token_bucket, limit: 20, per: 1s }
      - { name: day, algorithm: fixed_window, limit: 50, per: 1d, shadow: true }
  - name: prepaid
    match: { key: "*" }
    speed: prepaid
    rules: [{ name: many, algorithm: token_bucket, limit: 2000, per: 1s }]
"""
# Queries that are empty on a healthy server: each has to succeed, and needs no data.
MAY_BE_EMPTY = {"changes(process_start_time_seconds"}
LOAD_SECONDS = 20
children = []


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def start(words, log, cwd, **variables):
    with open(os.path.join(cwd, log), "w") as out:
        child = subprocess.Popen(words, stdout=out, stderr=out, cwd=cwd, env={**os.environ, **variables})
    children.append(child)
    return child


def get(url, body=None):
    request = urllib.request.Request(url, data=body and json.dumps(body).encode(), headers={"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as reply:
        return reply.read()


def wait_for(what, ready, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if ready():
                return
        except (OSError, urllib.error.URLError):
            pass
        time.sleep(0.2)
    sys.exit(f"{what}: not within {seconds} s")


def serve(binary, folder, name, store):
    ports = {wire: free_port() for wire in ("http", "resp", "admin")}
    words = [binary, "serve", "--rules", "rules.yaml", "--store", store, "--grpc", "off", "--store-deadline", "1000"]
    for wire, port in ports.items():
        words += [f"--{wire}", str(port)]
    start(words, f"{name}.log", folder)
    wait_for(name, lambda: json.loads(get(f"http://127.0.0.1:{ports['admin']}/readyz"))["store_answers"])
    return ports


def load(servers, seconds):
    """Bounded load: about 200 requests a second and server."""
    pipes = []
    for ports in servers:
        pipe = socket.create_connection(("127.0.0.1", ports["resp"]))
        pipes.append(pipe)
    end, sent = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        for ports, pipe in zip(servers, pipes):
            for user in ("ann", "bob"):
                get(f"http://127.0.0.1:{ports['http']}/v1/check", {"domain": "api", "descriptor": {"user": user}})
            # One busy key in a pipeline: merged calls and allotments.
            command = b"*3\r\n$8\r\nRK.CHECK\r\n$3\r\napi\r\n$4\r\nbusy\r\n"
            pipe.sendall(command * 30)
            got = b""
            while got.count(b"\r\n") < 30:
                got += pipe.recv(65536)
            sent += 32
        time.sleep(0.1)
    for pipe in pipes:
        pipe.close()
    return sent


def query(prometheus, expression):
    url = f"{prometheus}/api/v1/query?" + urllib.parse.urlencode({"query": expression})
    try:
        return json.loads(get(url))["data"]["result"]
    except urllib.error.HTTPError as error:
        sys.exit(f"{expression}\n{error.read().decode()}")


def queries(dashboard):
    """All expressions, with the variables replaced as for "All"."""
    found = []
    for panel in dashboard["panels"]:
        found += [(panel["title"], target["expr"]) for target in panel.get("targets", [])]
    found += [(one["name"], one["expr"]) for one in dashboard["annotations"]["list"]]
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            series, label = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["definition"]).groups()
            found.append((f"variable {variable['name']}", f"count by ({label}) ({series})"))
    for title, text in found:
        text = text.replace("$__rate_interval", "10s")
        for name in ("job", "instance", "domain"):
            text = text.replace(f"${name}", ".*")
        assert "$" not in text, text
        yield title, text


def main(binary):
    root = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "rules.yaml"), "w") as file:
            file.write(RULES)
        redis = free_port()
        start(["redis-server", "--port", str(redis), "--bind", "127.0.0.1", "--save", ""], "redis.log", folder)
        wait_for("Redis", lambda: socket.create_connection(("127.0.0.1", redis)))
        servers = [
            serve(binary, folder, "on-redis", f"redis://127.0.0.1:{redis}"),
            serve(binary, folder, "in-memory", "memory"),
        ]
        targets = [f"127.0.0.1:{ports['admin']}" for ports in servers]
        with open(os.path.join(folder, "prometheus.yml"), "w") as file:
            json.dump({
                "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
                "rule_files": [os.path.join(root, "deploy/prometheus/rules.yaml")],
                "scrape_configs": [{"job_name": "ratekeeper", "static_configs": [{"targets": targets}]}],
            }, file)
        port = free_port()
        start(["prometheus", "--config.file=prometheus.yml", f"--storage.tsdb.path={folder}/data",
               f"--web.listen-address=127.0.0.1:{port}"], "prometheus.log", folder)
        prometheus = f"http://127.0.0.1:{port}"
        wait_for("Prometheus", lambda: get(f"{prometheus}/-/ready"))
        wait_for("the scrapes", lambda: len(query(prometheus, "up == 1")) == 2)
        sent = load(servers, LOAD_SECONDS)
        time.sleep(2)

        with open(os.path.join(root, "deploy/grafana/ratekeeper.json")) as file:
            asked = list(queries(json.load(file)))
        empty = [f"{title}: {text}" for title, text in asked
                 if not query(prometheus, text) and not any(text.startswith(start) for start in MAY_BE_EMPTY)]
        groups = json.loads(get(f"{prometheus}/api/v1/rules"))["data"]["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        failing = [f"{rule['name']}: {rule['lastError']}" for rule in rules if rule["health"] != "ok"]
        silent = [rule["name"] for rule in rules if rule["type"] == "recording" and not query(prometheus, rule["name"])]
        firing = [rule["name"] for rule in rules if rule.get("state") == "firing"]
        problems = ([f"no data: {one}" for one in empty] + [f"rule: {one}" for one in failing]
                    + [f"recorded nothing: {one}" for one in silent] + [f"fires on healthy servers: {one}" for one in firing])
        print(f"{len(asked)} queries and {len(rules)} rules on {sent} requests to two servers")
        if problems:
            sys.exit("\n".join(problems))


if __name__ == "__main__":
    try:
        main(os.path.abspath(sys.argv[1]))
    finally:
        for child in reversed(children):
            child.send_signal(signal.SIGTERM)
        for child in children:
            try:
                child.wait(20)
            except subprocess.TimeoutExpired:
                child.kill()
