"""The Helm chart, rendered by Helm itself: valid by Kubernetes' schemas, and true to the program."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml

from tests import commands
from tests.infra.composing import ROOT
from vitrina import __version__
from vitrina.settings import Settings

CHART = ROOT / "infra" / "helm" / "vitrina"
BUNDLE = json.loads((Path(__file__).parent / "vendor" / "kubernetes.json").read_text())
EVERYTHING = {
    "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "ingress": {"enabled": True, "className": "nginx", "tlsSecret": "tls", "annotations": {"a": "b"}},
    "elasticsearch": {"url": "https://search.example:9200", "allowedIndexes": ["film_*"]},
    "imagePullSecrets": [{"name": "registry"}],
    "env": {"VITRINA_TRANSFORM_MODULES": "cinema.transforms", "VITRINA_POLL_SECONDS": 1},
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "etl", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
}
SOURCES = {
    "sources": {
        "shop": {"secret": "shop-database", "key": "url", "captureKey": "capture-url"},
        "crm": {"secret": "crm-database", "key": "uri"},
    },
    "extraVolumes": [{"name": "ca", "configMap": {"name": "database-ca"}}],
    "extraVolumeMounts": [{"name": "ca", "mountPath": "/etc/vitrina/ca", "readOnly": True}],
    "envFrom": [{"secretRef": {"name": "webhook"}}, {"configMapRef": {"name": "settings", "optional": True}}],
}
VALUES: dict[str, dict[str, Any]] = {
    "default": {},
    "everything": EVERYTHING,
    "two sources and a CA": SOURCES,
    "least": {"migrate": {"enabled": False}, "api": {"replicas": 1}, "podDisruptionBudget": {"enabled": False}},
}
WORKLOADS = [("Deployment", "-api"), ("Deployment", "-runner"), ("Job", "-migrate")]
# Of the metrics of a runner, which this version may not have yet.
SETTINGS = {f"VITRINA_{name.upper()}" for name in Settings.model_fields} | {"ELASTICSEARCH_URL"}


@pytest.fixture(scope="module")
def helm() -> str:
    """The program; `make helm` builds one where there is none."""
    built = Path.home() / ".cache" / "vitrina" / "tools" / "helm"
    found = shutil.which("helm") or (str(built) if built.exists() else None)
    if not found and "helm" in os.environ.get("VITRINA_REQUIRE", "").split(","):
        pytest.fail("VITRINA_REQUIRE has helm, and there is none: make helm")
    return found or pytest.skip("the chart is not rendered: there is no Helm on this machine; make helm builds one")


@pytest.fixture(params=VALUES)
def manifests(request: pytest.FixtureRequest, helm: str, tmp_path: Path) -> list[dict[str, Any]]:
    """The chart with one of the sets of values."""
    return render(helm, tmp_path, VALUES[request.param])


@pytest.fixture
def everything(helm: str, tmp_path: Path) -> list[dict[str, Any]]:
    """The chart with all of its options."""
    return render(helm, tmp_path, EVERYTHING)


def render(helm: str, folder: Path, values: dict[str, Any]) -> list[dict[str, Any]]:
    (folder / "values.yaml").write_text(yaml.safe_dump(values))
    command = [helm, "template", "cinema", str(CHART), "--values", str(folder / "values.yaml")]
    done = subprocess.run([*command, "--kube-version", "1.34.0"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [found for found in yaml.safe_load_all(done.stdout) if found]


def find(manifests: list[dict[str, Any]], kind: str, end: str = "") -> dict[str, Any]:
    (found,) = (m for m in manifests if m["kind"] == kind and m["metadata"]["name"].endswith(end))
    return found


def pods(manifests: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    return (m["spec"]["template"]["spec"] for m in manifests if m["kind"] in ("Deployment", "Job"))


def variables(pod: dict[str, Any]) -> dict[str, Any]:
    return {v["name"]: v.get("value") or v["valueFrom"]["secretKeyRef"] for v in pod["containers"][0]["env"]}


def test_helm_finds_nothing_in_the_chart(helm: str) -> None:
    done = subprocess.run([helm, "lint", "--strict", CHART], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_every_manifest_is_valid_by_its_schema(manifests: list[dict[str, Any]]) -> None:
    for manifest in manifests:
        schema = BUNDLE["kinds"][f"{manifest['apiVersion']} {manifest['kind']}"] | {"$defs": BUNDLE["$defs"]}
        errors = jsonschema_rs.validator_for(schema).iter_errors(manifest)
        assert [(error.message, error.instance_path) for error in errors] == [], manifest["metadata"]["name"]


def test_the_schemas_would_find_a_field_that_is_none() -> None:
    schema = jsonschema_rs.validator_for(BUNDLE["kinds"]["v1 Pod"] | {"$defs": BUNDLE["$defs"]})
    pod: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "x"}]}}
    assert schema.is_valid(pod)
    pod["spec"]["containers"][0]["securityContext"] = {"readOnlyRootFileSystem": True}
    assert not schema.is_valid(pod)


def test_no_pod_is_root_or_writes_or_holds_a_secret(manifests: list[dict[str, Any]]) -> None:
    for pod in pods(manifests):
        assert pod["securityContext"]["runAsNonRoot"]
        assert pod["automountServiceAccountToken"] is False
        context = pod["containers"][0]["securityContext"]
        assert (context["readOnlyRootFilesystem"], context["allowPrivilegeEscalation"]) == (True, False)
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert all(isinstance(v, dict) for name, v in variables(pod).items() if name.endswith(("_URL", "TOKEN", "KEY"))
                   and name != "ELASTICSEARCH_URL")  # fmt: skip


def test_every_process_is_a_command_with_settings_that_there_are(manifests: list[dict[str, Any]]) -> None:
    for pod in pods(manifests):
        name, *options = pod["containers"][0]["args"]
        assert set(options) <= commands.options(name)
        assert {re.sub("__.*", "", name) for name in variables(pod)} <= SETTINGS


def test_only_the_migration_signs_in_as_the_owner(everything: list[dict[str, Any]]) -> None:
    keys = {
        m["metadata"]["name"]: variables(m["spec"]["template"]["spec"])["VITRINA_DATABASE_URL"]["key"]
        for m in everything
        if m["kind"] in ("Deployment", "Job")
    }
    assert keys == {
        "cinema-vitrina-api": "api-url",
        "cinema-vitrina-runner": "runner-url",
        "cinema-vitrina-migrate": "owner-url",
    }


def test_each_pod_holds_the_secrets_that_it_needs_and_no_other(everything: list[dict[str, Any]]) -> None:
    held = {
        m["metadata"]["name"].rpartition("-")[2]: {
            v["key"] for v in variables(m["spec"]["template"]["spec"]).values() if isinstance(v, dict)
        }
        for m in everything
        if m["kind"] in ("Deployment", "Job")
    }
    assert held == {
        "api": {"api-url", "reader-url", "metrics-token"},
        "runner": {"runner-url", "reader-url", "capture-url", "elasticsearch-api-key", "metrics-token"},
        "migrate": {"owner-url", "runner-url", "reader-url", "api-url", "capture-url", "token"},
    }


def test_each_source_is_read_by_api_and_runner_and_captured_by_the_runner(helm: str, tmp_path: Path) -> None:
    found = render(helm, tmp_path, SOURCES)
    secrets = {name: variables(find(found, kind, name)["spec"]["template"]["spec"]) for kind, name in WORKLOADS}
    read = {"VITRINA_SOURCES__SHOP": ("shop-database", "url"), "VITRINA_SOURCES__CRM": ("crm-database", "uri")}
    captured = {"VITRINA_CAPTURE_SOURCES__SHOP": ("shop-database", "capture-url")}
    assert {name: of_sources(held) for name, held in secrets.items()} == {
        "-api": read,
        "-runner": read | captured,
        "-migrate": {},
    }


def of_sources(held: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {name: (ref["name"], ref["key"]) for name, ref in held.items() if "SOURCES__" in name}


def test_every_pod_has_the_volumes_and_the_environment_that_are_asked_for(helm: str, tmp_path: Path) -> None:
    for pod in pods(render(helm, tmp_path, SOURCES)):
        assert {"name": "ca", "configMap": {"name": "database-ca"}} in pod["volumes"]
        (container,) = pod["containers"]
        mounted = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
        assert mounted == {"/tmp": "tmp", "/etc/vitrina/ca": "ca"}
        assert container["envFrom"] == SOURCES["envFrom"]


def test_what_one_kind_of_process_needs_no_other_gets(helm: str, tmp_path: Path) -> None:
    """The provider's secret is the API's, and the addresses of alerts are the runners'."""
    own = {
        "api": {"env": {"VITRINA_OIDC_CLIENT_ID": "vitrina"}, "envFrom": [{"secretRef": {"name": "openid"}}]},
        "runner": {"env": {"VITRINA_POLL_SECONDS": 1}, "envFrom": [{"secretRef": {"name": "alerts"}}]},
    }
    made, all_of_them = render(helm, tmp_path, SOURCES | own), SOURCES["envFrom"]
    held = {}
    for kind, end in WORKLOADS:
        (container,) = find(made, kind, end.strip("-"))["spec"]["template"]["spec"]["containers"]
        plain = {one["name"] for one in container["env"]} & {"VITRINA_OIDC_CLIENT_ID", "VITRINA_POLL_SECONDS"}
        held[end] = (container["envFrom"], plain)
    assert held == {
        "-api": ([*all_of_them, {"secretRef": {"name": "openid"}}], {"VITRINA_OIDC_CLIENT_ID"}),
        "-runner": ([*all_of_them, {"secretRef": {"name": "alerts"}}], {"VITRINA_POLL_SECONDS"}),
        "-migrate": (all_of_them, set()),
    }


def test_a_source_without_its_key_is_refused(helm: str) -> None:
    values = ["--set", "sources.shop.secret=shop-database"]
    done = subprocess.run([helm, "template", CHART, *values], capture_output=True, text=True)
    assert (done.returncode != 0, "key" in done.stderr) == (True, True)


def test_maintenance_takes_one_pod_at_a_time(everything: list[dict[str, Any]], helm: str, tmp_path: Path) -> None:
    for component in ("api", "runner"):
        budget = find(everything, "PodDisruptionBudget", component)["spec"]
        template = find(everything, "Deployment", component)["spec"]["template"]
        assert budget["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
        assert budget["maxUnavailable"] == 1
    alone = render(helm, tmp_path, {"api": {"replicas": 1}})
    assert [m["metadata"]["name"] for m in alone if m["kind"] == "PodDisruptionBudget"] == ["cinema-vitrina-runner"]


def test_nobody_reaches_a_runner_and_the_api_only_at_its_port(helm: str, tmp_path: Path) -> None:
    found = render(helm, tmp_path, {"networkPolicy": {"from": [{"podSelector": {}}]}})
    assert find(found, "NetworkPolicy", "-runner")["spec"]["ingress"] == []
    (rule,) = find(found, "NetworkPolicy", "-api")["spec"]["ingress"]
    assert (rule["ports"], rule["from"]) == ([{"port": "http", "protocol": "TCP"}], [{"podSelector": {}}])
    assert not [
        m for m in render(helm, tmp_path, {"networkPolicy": {"enabled": False}}) if m["kind"] == "NetworkPolicy"
    ]


def test_an_image_can_be_pinned_by_its_digest(helm: str, tmp_path: Path) -> None:
    digest = "sha256:" + "0" * 64
    for pod in pods(render(helm, tmp_path, {"image": {"digest": digest}})):
        assert pod["containers"][0]["image"].endswith(f"@{digest}")


def test_every_key_of_the_secret_is_documented(everything: list[dict[str, Any]]) -> None:
    documented = set(
        re.findall(r"(?:^#| {2})\s+([a-z]+(?:-[a-z]+)*-(?:url|key|token)|token) ", VALUES_TEXT, re.MULTILINE)
    )
    used = {v["key"] for pod in pods(everything) for v in variables(pod).values() if isinstance(v, dict)}
    assert used == documented


VALUES_TEXT = (CHART / "values.yaml").read_text()


def test_the_migration_goes_first_and_runners_get_time_to_end(everything: list[dict[str, Any]]) -> None:
    job, runner = find(everything, "Job"), find(everything, "Deployment", "runner")
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"
    assert runner["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] >= 60


def test_services_and_monitors_find_their_pods(everything: list[dict[str, Any]]) -> None:
    for service in (m for m in everything if m["kind"] == "Service"):
        component = service["spec"]["selector"]["app.kubernetes.io/component"]
        template = find(everything, "Deployment", component)["spec"]["template"]
        assert service["spec"]["selector"].items() <= template["metadata"]["labels"].items()
        ports = {port["name"] for port in template["spec"]["containers"][0]["ports"]}
        assert service["spec"]["ports"][0]["targetPort"] in ports
        monitor = find(everything, "ServiceMonitor", component)
        assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
        assert monitor["spec"]["endpoints"][0]["port"] == service["spec"]["ports"][0]["name"]


def test_probes_ask_what_the_api_answers(everything: list[dict[str, Any]]) -> None:
    container = find(everything, "Deployment", "api")["spec"]["template"]["spec"]["containers"][0]
    asked = [container[probe]["httpGet"]["path"] for probe in ("startupProbe", "livenessProbe", "readinessProbe")]
    assert asked == ["/livez", "/livez", "/readyz"]


def test_a_value_that_is_none_is_refused(helm: str, tmp_path: Path) -> None:
    done = subprocess.run([helm, "template", CHART, "--set", "runners=3"], capture_output=True, text=True)
    assert done.returncode != 0
    assert "runners" in done.stderr


def test_the_chart_is_of_this_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)
