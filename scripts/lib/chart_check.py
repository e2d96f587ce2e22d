"""Compares what the Helm chart renders with the image and the documented settings; called by scripts/chart."""
import re
import sys
import tomllib
from pathlib import Path

import yaml

root = Path(__file__).resolve().parents[2]
documented = set(re.findall(r"`((?:WINDLASS|OTEL)_[A-Z_]+)`", (root / "docs/operating.md").read_text()))
dockerfile = (root / "packaging/Dockerfile").read_text()
version = tomllib.loads((root / "Cargo.toml").read_text())["workspace"]["package"]["version"]


def check(is_so, problem):
    if not is_so:
        sys.exit(f"chart: {problem}")


def load(path):
    """The documents by kind; there is one of each."""
    documents = [document for document in yaml.safe_load_all(Path(path).read_text()) if document]
    return {document["kind"]: document for document in documents}


def check_pod(workload):
    pod = workload["spec"]["template"]["spec"]
    container = pod["containers"][0]
    user = pod["securityContext"]
    check(f"USER {user['runAsUser']}:{user['runAsGroup']}" in dockerfile, "the user is not that of the image")
    check(user["runAsNonRoot"] and user["fsGroup"] == user["runAsGroup"], "the volume would not belong to the user")
    safety = container["securityContext"]
    check(safety["readOnlyRootFilesystem"] and not safety["allowPrivilegeEscalation"], "the container may do too much")
    check(container["image"].endswith(":" + version), f"the image is not that of version {version}: {container['image']}")
    names = [variable["name"] for variable in container["env"]]
    check(len(names) == len(set(names)), f"a variable is set twice: {names}")
    for name in names:
        check(name in documented, f"{name} is not documented in docs/operating.md")
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    claims = {claim["metadata"]["name"] for claim in workload["spec"].get("volumeClaimTemplates", [])}
    volumes = {volume["name"] for volume in pod["volumes"]} | claims
    check(mounted == volumes, f"mounted {mounted}, but there are {volumes}")
    labels = workload["spec"]["template"]["metadata"]["labels"]
    selector = workload["spec"]["selector"]["matchLabels"]
    check(selector.items() <= labels.items(), "the selector does not find the pods")
    return {variable["name"]: variable.get("value") for variable in container["env"]}, container, labels


sqlite, postgres = load(sys.argv[1]), load(sys.argv[2])
check(set(sqlite) == {"StatefulSet", "Service", "ServiceAccount", "Pod"}, f"with SQLite there is {set(sqlite)}")
settings, container, labels = check_pod(sqlite["StatefulSet"])
check(sqlite["StatefulSet"]["spec"]["replicas"] == 1, "two pods cannot share a SQLite file")
check(settings["WINDLASS_STORE"] == "sqlite:/data/jobs.db" and settings["WINDLASS_BEHIND_PROXY"] == "true", f"{settings}")
check(sqlite["Service"]["spec"]["selector"].items() <= labels.items(), "the service does not find the pods")

kinds = {"Deployment", "Service", "ServiceAccount", "Pod", "PodDisruptionBudget", "NetworkPolicy", "ServiceMonitor", "Ingress"}
check(set(postgres) == kinds, f"with PostgreSQL there is {set(postgres)}")
settings, container, labels = check_pod(postgres["Deployment"])
check(postgres["Deployment"]["spec"]["replicas"] == 2, "with PostgreSQL there are two pods")
check(settings["WINDLASS_STORE"] is None, "the address of the database stands outside a secret")
check("WINDLASS_BEHIND_PROXY" not in settings and settings["WINDLASS_TLS_CERT"].endswith("tls.crt"), f"{settings}")
check(settings["WINDLASS_RETENTION"] == "14d", "further settings are lost")
for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
    check(container[probe]["httpGet"]["scheme"] == "HTTPS", f"{probe} does not use TLS")
print("chart: both shapes are consistent with the image and the settings")
