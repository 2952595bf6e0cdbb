"""Runs the Envoy of deploy/compose in front of a real server, on free ports of loopback: envoy.py RATEKEEPER_BINARY

The eleventh request of a minute is refused, as the comment in compose.yaml says.
"""

import os
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

from observe import children, free_port, get, start, wait_for


def status(port):
    request = urllib.request.Request(f"http://127.0.0.1:{port}/", headers={"x-user": "ann"})
    try:
        with urllib.request.urlopen(request, timeout=10) as reply:
            return reply.status
    except urllib.error.HTTPError as error:
        return error.code


def main(binary):
    envoy = os.environ.get("RATEKEEPER_ENVOY", os.path.abspath("target/parts/bin/envoy"))
    rules = os.path.abspath("deploy/compose/rules")
    edge, grpc, admin, service = free_port(), free_port(), free_port(), free_port()
    with open("deploy/compose/envoy.yaml") as file:
        text = file.read()
    for old, new in [("0.0.0.0, port_value: 10000", f"127.0.0.1, port_value: {edge}"),
                     ("address: ratekeeper, port_value: 8081", f"address: 127.0.0.1, port_value: {grpc}"),
                     # This machine may be busy.
                     ("timeout: 0.02s", "timeout: 5s")]:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    text = text.replace("port_value: 10001", f"port_value: {service}")
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "envoy.yaml"), "w") as file:
            file.write(text)
        start([binary, "serve", "--rules", rules, "--http", "off", "--resp", "off", "--grpc", str(grpc), "--admin", str(admin)],
              "ratekeeper.log", folder)
        wait_for("ratekeeper", lambda: get(f"http://127.0.0.1:{admin}/readyz"))
        start([envoy, "-c", "envoy.yaml", "--concurrency", "1", "--log-level", "error", "--use-dynamic-base-id"], "envoy.log", folder)
        wait_for("Envoy", lambda: status(edge) in (200, 429))
        # Twice the limit and the request above: one minute may end meanwhile, and two minutes cannot.
        got = [status(edge) for _ in range(30)]
        assert set(got) == {200, 429} and 9 <= got.count(200) <= 20, got
        print(f"Envoy: {got.count(200)} allowed, {got.count(429)} refused")


if __name__ == "__main__":
    try:
        main(os.path.abspath(sys.argv[1]))
    finally:
        for child in reversed(children):
            child.terminate()
        for child in children:
            try:
                child.wait(20)
            except subprocess.TimeoutExpired:
                child.kill()
