"""Checks of deploy/compose that its schema cannot make: compose.py RESOLVED_COMPOSE_JSON"""

import json
import os
import re
import sys

import yaml


def main(resolved):
    with open(resolved) as file:
        services = yaml.safe_load(file)["services"]
    problems = []
    for name, service in services.items():
        image = service.get("image", "")
        if not service.get("build") and not re.search(r":v?\d", image):
            problems.append(f"{name}: {image!r} has no version")
        for port in service.get("ports", []):
            if port.get("host_ip") != "127.0.0.1":
                problems.append(f"{name}: {port} is not on 127.0.0.1")
        for volume in service.get("volumes", []):
            if not os.path.exists(volume["source"]):
                problems.append(f"{name}: {volume['source']} does not exist")
    build = services["ratekeeper"]["build"]
    if not os.path.isfile(os.path.join(build["context"], build["dockerfile"])):
        problems.append(f"no {build}")
    # The variables of the dashboard find the data source by its type; the provider has the dashboards' directory.
    mounted = {volume["target"]: volume["source"] for volume in services["grafana"]["volumes"]}
    with open(os.path.join(mounted["/etc/grafana/provisioning/dashboards"], "ratekeeper.yaml")) as file:
        folder = yaml.safe_load(file)["providers"][0]["options"]["path"]
    with open(os.path.join(mounted[folder], "ratekeeper.json")) as file:
        dashboard = json.load(file)
    if dashboard["uid"] != "ratekeeper" or any(one["type"] not in known for known in [
            {"row", "stat", "timeseries", "table", "heatmap"}] for one in dashboard["panels"]):
        problems.append("the dashboard is not the one that the comment links to")
    print(f"{len(services)} services")
    if problems:
        sys.exit("\n".join(problems))


main(sys.argv[1])
