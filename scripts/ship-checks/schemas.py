"""Makes JSON Schemas for kubeconform, so that it needs no network: schemas.py SWAGGER_JSON CRD_DIRECTORY OUTPUT

SWAGGER_JSON is api/openapi-spec/swagger.json of k8s.io/kubernetes, CRD_DIRECTORY has custom resource definitions as YAML.
The schemas are strict: unknown fields are errors. One file for each kind: deployment-apps-v1.json.
"""

import json
import os
import sys

import yaml

# The plain value "=" has a type of its own in YAML 1.1.
yaml.SafeLoader.add_constructor("tag:yaml.org,2002:value", yaml.SafeLoader.construct_yaml_str)

INT_OR_STRING = {"oneOf": [{"type": "string"}, {"type": "integer"}]}


def strict(node):
    """The same schema, with unknown fields forbidden where fields are listed."""
    if isinstance(node, list):
        return [strict(one) for one in node]
    if not isinstance(node, dict):
        return node
    if node.get("format") == "int-or-string" or node.get("x-kubernetes-int-or-string"):
        return INT_OR_STRING
    made = {name: strict(value) for name, value in node.items() if not name.startswith("x-kubernetes-") and name != "description"}
    if isinstance(made.get("properties"), dict) and "additionalProperties" not in made:
        if not node.get("x-kubernetes-preserve-unknown-fields"):
            made["additionalProperties"] = False
    return made


def write(output, kind, group, version, schema):
    name = "-".join(filter(None, [kind.lower(), group.split(".")[0], version]))
    with open(os.path.join(output, f"{name}.json"), "w") as file:
        json.dump({"$schema": "http://json-schema.org/draft-07/schema#", **schema}, file)


def main(swagger, crds, output):
    os.makedirs(output, exist_ok=True)
    with open(swagger) as file:
        found = json.load(file)["definitions"]
    definitions = {name: strict(schema) for name, schema in found.items()}
    # Quantities are written as numbers, too.
    definitions["io.k8s.apimachinery.pkg.api.resource.Quantity"] = {"oneOf": [{"type": "string"}, {"type": "number"}]}
    made = 0
    for name, schema in found.items():
        for one in schema.get("x-kubernetes-group-version-kind", []):
            needed, open_names = {}, [name]
            while open_names:
                current = open_names.pop()
                if current in needed:
                    continue
                needed[current] = definitions[current]
                text = json.dumps(definitions[current])
                open_names += [part.split('"')[0] for part in text.split('"#/definitions/')[1:]]
            write(output, one["kind"], one["group"], one["version"], {"$ref": f"#/definitions/{name}", "definitions": needed})
            made += 1
    for file in sorted(os.listdir(crds)):
        with open(os.path.join(crds, file)) as text:
            crd = yaml.safe_load(text)["spec"]
        for version in crd["versions"]:
            schema = strict(version["schema"]["openAPIV3Schema"])
            # The API server adds the rest of the metadata.
            schema["properties"]["metadata"] = {"type": "object"}
            write(output, crd["names"]["kind"], crd["group"], version["name"], schema)
            made += 1
    print(f"{made} schemas")


main(*sys.argv[1:])
