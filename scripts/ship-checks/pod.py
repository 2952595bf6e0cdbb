"""Runs the container of a rendered Deployment without a cluster: pod.py MANIFESTS RATEKEEPER_BINARY

The command, environment and probes are those of the manifest; ports are free ones of loopback, and the store is in memory. The rules
are mounted as the kubelet does it, with symbolic links that it swaps when the ConfigMap changes: a change is reloaded. SIGTERM makes
the pod unready at once, and it ends within the grace period.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error

import yaml

from observe import children, free_port, get, start, wait_for


def mount(folder, files, version):
    """As kubelet's atomic writer: name -> ..data/name, ..data -> a directory of this version."""
    directory = os.path.join(folder, f"..{version}")
    os.mkdir(directory)
    for name, text in files.items():
        with open(os.path.join(directory, name), "w") as file:
            file.write(text)
        link = os.path.join(folder, name)
        if not os.path.lexists(link):
            os.symlink(f"..data/{name}", link)
    os.symlink(f"..{version}", os.path.join(folder, "..data_tmp"))
    os.rename(os.path.join(folder, "..data_tmp"), os.path.join(folder, "..data"))


def status(url):
    try:
        get(url)
        return 200
    except urllib.error.HTTPError as error:
        return error.code


def main(manifests, binary):
    with open(manifests) as file:
        objects = {(one["kind"], one["metadata"]["name"]): one for one in yaml.safe_load_all(file) if one}
    pod = objects[("Deployment", "ratekeeper")]["spec"]["template"]["spec"]
    container = pod["containers"][0]
    files = objects[("ConfigMap", "ratekeeper-rules")]["data"]
    ports = {one["name"]: (one["containerPort"], free_port()) for one in container["ports"]}
    with tempfile.TemporaryDirectory() as folder:
        rules = os.path.join(folder, "rules")
        os.mkdir(rules)
        mount(rules, files, "2026_01")
        environment = {one["name"]: one.get("value", "memory") for one in container["env"]}
        for name, value in environment.items():
            for inside, outside in ports.values():
                if value == f"0.0.0.0:{inside}":
                    environment[name] = str(outside)
        assert environment["RATEKEEPER_RULES"] == container["volumeMounts"][0]["mountPath"]
        environment["RATEKEEPER_RULES"] = rules
        server = start([binary, *container["args"]], "pod.log", folder, **environment)
        admin = f"http://127.0.0.1:{ports[container['readinessProbe']['httpGet']['port']][1]}"
        wait_for("the pod", lambda: status(admin + container["readinessProbe"]["httpGet"]["path"]) == 200)
        assert status(admin + container["livenessProbe"]["httpGet"]["path"]) == 200

        def limits():
            return [line for line in get(admin + "/metrics").decode().splitlines() if line.startswith("ratekeeper_rule_limit{")]

        assert any(line.endswith(" 100") or line.endswith(" 100.0") for line in limits()), limits()
        changed = {name: text.replace("limit: 100,", "limit: 77,") for name, text in files.items()}
        assert changed != files
        mount(rules, changed, "2026_02")
        wait_for("the reload", lambda: any(" 77" in line for line in limits()))

        begun = time.monotonic()
        server.send_signal(signal.SIGTERM)
        wait_for("unready", lambda: status(admin + "/readyz") == 503, 5)
        code = server.wait(pod["terminationGracePeriodSeconds"])
        took = time.monotonic() - begun
        assert code == 0, code
        assert took >= int(environment["RATEKEEPER_STOP_DELAY"]), took
        print(f"pod: ready, reloaded its ConfigMap, stopped after {took:.1f} s of {pod['terminationGracePeriodSeconds']}")


if __name__ == "__main__":
    try:
        main(sys.argv[1], os.path.abspath(sys.argv[2]))
    finally:
        for child in children:
            if child.poll() is None:
                child.terminate()
                try:
                    child.wait(20)
                except subprocess.TimeoutExpired:
                    child.kill()
