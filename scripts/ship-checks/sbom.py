"""Validates a list of dependencies against the schema of CycloneDX 1.5: sbom.py FILE VERSION"""

import json
import sys

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

with open(sys.argv[1]) as file:
    text = file.read()
problem = JsonStrictValidator(SchemaVersion.V1_5).validate_str(text)
if problem:
    sys.exit(f"{sys.argv[1]}: {problem}")
bom = json.loads(text)
names = {one["name"] for one in bom["components"]}
assert bom["metadata"]["component"]["version"] == sys.argv[2], bom["metadata"]
assert {"tokio", "rustls", "ratekeeper-core"} <= names and not {"proptest", "tempfile"} & names, sorted(names)
known = {one["bom-ref"] for one in bom["components"]} | {bom["metadata"]["component"]["bom-ref"]}
assert all(one["ref"] in known and set(one["dependsOn"]) <= known for one in bom["dependencies"])
print(f"{len(names)} components in {sys.argv[1]}")
