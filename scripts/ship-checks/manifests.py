"""Checks of rendered manifests that a schema cannot make: manifests.py FILE"""

import sys

import yaml


def main(path):
    with open(path) as file:
        objects = {(one["kind"], one["metadata"]["name"]): one for one in yaml.safe_load_all(file) if one}
    kinds = {kind for kind, _ in objects}
    wanted = {"ConfigMap", "Deployment", "HorizontalPodAutoscaler", "NetworkPolicy", "PodDisruptionBudget", "PrometheusRule",
              "Service", "ServiceAccount", "ServiceMonitor"}
    problems = [f"no {kind}" for kind in sorted(wanted - kinds)]
    deployment = objects[("Deployment", "ratekeeper")]["spec"]
    pod = deployment["template"]["spec"]
    container = pod["containers"][0]
    variables = {one["name"]: one for one in container["env"]}
    delays = sum(int(variables[name]["value"]) for name in ("RATEKEEPER_STOP_DELAY", "RATEKEEPER_DRAIN"))
    checks = {
        "the grace period exceeds the stop delay, the drain and the charge of local grants": pod["terminationGracePeriodSeconds"] >= delays + 2,
        "the store is read from the Secret": "secretKeyRef" in variables["RATEKEEPER_STORE"].get("valueFrom", {}),
        "not root": pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsUser"] > 0,
        "a read-only file system": container["securityContext"]["readOnlyRootFilesystem"],
        "no capabilities": container["securityContext"]["capabilities"]["drop"] == ["ALL"],
        "the autoscaler sets the replicas": "replicas" not in deployment,
        "readiness by /readyz, liveness by /healthz": [container[f"{one}Probe"]["httpGet"]["path"] for one in ("readiness", "liveness")]
        == ["/readyz", "/healthz"],
        "every volume is mounted": {one["name"] for one in pod["volumes"]} == {one["name"] for one in container["volumeMounts"]},
        "the selectors match the pods": all(
            one["spec"]["selector"].items() <= deployment["template"]["metadata"]["labels"].items()
            for (kind, _), one in objects.items() if kind == "Service"
        ),
        "the monitor finds exactly one Service": sum(
            objects[("ServiceMonitor", "ratekeeper")]["spec"]["selector"]["matchLabels"].items() <= one["metadata"]["labels"].items()
            for (kind, _), one in objects.items() if kind == "Service"
        ) == 1,
        "the admin port is not in the Service of clients": "admin"
        not in {one["name"] for one in objects[("Service", "ratekeeper")]["spec"]["ports"]},
        "alerts in the PrometheusRule": sum(
            "alert" in rule for group in objects[("PrometheusRule", "ratekeeper")]["spec"]["groups"] for rule in group["rules"]
        ) > 20,
    }
    problems += [f"not true: {claim}" for claim, holds in checks.items() if not holds]
    print(f"{len(objects)} objects, {len(checks)} claims")
    if problems:
        sys.exit("\n".join(problems))


main(sys.argv[1])
