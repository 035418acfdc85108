"""Make tests/infra/vendor/kubernetes.json anew: the strict schemas of the kinds that the chart may hold, and no more.

python -m tools.infra.schemas FOLDER CRD
FOLDER: kubernetes_validate/kubernetes-json-schema/v1.34.0-local-strict of the kubernetes-validate wheel;
CRD: monitoring.coreos.com_servicemonitors.yaml of prometheus-operator.
"""

import json
import sys
from pathlib import Path
from typing import Any

import yaml

KINDS = {
    "apps/v1 Deployment": "io.k8s.api.apps.v1.Deployment",
    "batch/v1 Job": "io.k8s.api.batch.v1.Job",
    "v1 Service": "io.k8s.api.core.v1.Service",
    "v1 ServiceAccount": "io.k8s.api.core.v1.ServiceAccount",
    "v1 Pod": "io.k8s.api.core.v1.Pod",
    "networking.k8s.io/v1 Ingress": "io.k8s.api.networking.v1.Ingress",
    "networking.k8s.io/v1 NetworkPolicy": "io.k8s.api.networking.v1.NetworkPolicy",
    "policy/v1 PodDisruptionBudget": "io.k8s.api.policy.v1.PodDisruptionBudget",
}
REFERENCE = "#/$defs/"
TARGET = Path(__file__).parents[2] / "tests" / "infra" / "vendor" / "kubernetes.json"


def main(folder: Path, crd: Path) -> None:
    """Follow the references from the kinds; descriptions are left out."""
    known = json.loads((folder / "_definitions.json").read_text())["$defs"]
    kept: dict[str, Any] = {}
    wanted = list(KINDS.values())
    while wanted:
        name = wanted.pop()
        if name not in kept:
            kept[name] = _slim(known[name], wanted)
    (version,) = [v for v in yaml.safe_load(crd.read_text())["spec"]["versions"] if v["name"] == "v1"]
    monitor = _slim(version["schema"]["openAPIV3Schema"], [])
    kinds = {kind: {"$ref": f"#/$defs/{name}"} for kind, name in KINDS.items()}
    kinds["monitoring.coreos.com/v1 ServiceMonitor"] = {"$ref": "#/$defs/ServiceMonitor"}
    bundle = {"kinds": kinds, "$defs": kept | {"ServiceMonitor": monitor}}
    TARGET.write_text(json.dumps(bundle, sort_keys=True, separators=(",", ":")) + "\n")


def _slim(schema: Any, wanted: list[str]) -> Any:
    if isinstance(schema, list):
        return [_slim(item, wanted) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if str(schema.get("$ref", "")).startswith(REFERENCE):
        wanted.append(schema["$ref"].removeprefix(REFERENCE))
        return {"$ref": f"#/$defs/{wanted[-1]}"}
    kept = {k: v for k, v in schema.items() if k != "description" and not k.startswith("x-kubernetes")}
    slim = {key: _slim(value, wanted) for key, value in kept.items() if key != "properties"}
    if "properties" in kept:  # where a description is a field like any other
        slim["properties"] = {name: _slim(item, wanted) for name, item in kept["properties"].items()}
    return slim


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
