"""What docs/team/ gives to deploy: an example that is whole and true, a manifest that is well-formed, its sources."""

import json
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import yaml  # type: ignore[import-untyped]

from fastcoder_lsp.team.configuration import TeamConfig, parse_config

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "team.md").read_text(encoding="utf-8")
EXAMPLE = (DOCS / "team" / "team.toml").read_text(encoding="utf-8")
MANIFEST: dict[str, Any] = yaml.safe_load((DOCS / "team" / "rayservice.yaml").read_text(encoding="utf-8"))

# Of KubeRay's definition of a RayService (ray.io/v1) and of Kubernetes' pods: what a level must have, and what it may.
CLUSTER = (
    {"headGroupSpec"},
    {"rayVersion", "enableInTreeAutoscaling", "workerGroupSpecs", "autoscalerOptions", "authOptions"},
)
HEAD = ({"rayStartParams", "template"}, {"serviceType", "headService", "enableIngress", "resources", "labels"})
GROUP = (
    {"groupName", "rayStartParams", "template", "replicas", "minReplicas", "maxReplicas"},
    {"numOfHosts", "idleTimeoutSeconds", "suspend", "scaleStrategy", "resources", "labels"},
)
POD = (
    {"containers", "initContainers"},
    {"volumes", "securityContext", "tolerations", "nodeSelector", "serviceAccountName", "affinity"},
)
CONTAINER = (
    {"name", "image"},
    {"env", "ports", "resources", "volumeMounts", "command", "args", "imagePullPolicy", "securityContext"},
)


def closed(found: dict[str, Any], level: tuple[set[str], set[str]]) -> dict[str, Any]:
    must, may = level
    assert must <= set(found), must - set(found)
    assert set(found) <= must | may, set(found) - must - may
    return found


def groups() -> list[dict[str, Any]]:
    cluster = closed(MANIFEST["spec"]["rayClusterConfig"], CLUSTER)
    return [closed(cluster["headGroupSpec"], HEAD), *(closed(group, GROUP) for group in cluster["workerGroupSpecs"])]


def test_the_example_has_every_field_and_what_holds_without_it() -> None:
    """But for where it listens and its keys, which are an example."""
    told = tomllib.loads(EXAMPLE)
    defaults = msgspec.to_builtins(TeamConfig())
    assert set(told) | {"repositories"} == set(defaults)
    for section in ("listen", "replicas", "limits", "records"):
        assert set(told[section]) == set(defaults[section])
    for section in ("limits", "records"):
        assert told[section] == defaults[section]
    told["replicas"]["most"] = 0
    assert told["replicas"] == defaults["replicas"]
    parse_config(EXAMPLE, DOCS)
    uncommented = re.sub(r"^# (\[\[|\w+ = )", r"\1", EXAMPLE, flags=re.MULTILINE)
    assert [one.name for one in parse_config(uncommented, DOCS).repositories] == ["core"]


def test_the_manifest_is_a_rayservice() -> None:
    assert (MANIFEST["apiVersion"], MANIFEST["kind"]) == ("ray.io/v1", "RayService")
    assert set(MANIFEST["spec"]) == {"serveConfigV2", "rayClusterConfig"}
    assert MANIFEST["spec"]["rayClusterConfig"]["authOptions"] == {"mode": "token"}
    for group in groups():
        assert all(isinstance(value, str) for value in group["rayStartParams"].values())
        assert (
            group.get("minReplicas", 0) <= group.get("replicas", 0) <= group.get("maxReplicas", 0)
            or "groupName" not in group
        )
        pod = closed(group["template"]["spec"], POD)
        volumes = {volume["name"] for volume in pod["volumes"]}
        for container in pod["containers"]:
            closed(container, CONTAINER)
            assert {mount["name"] for mount in container["volumeMounts"]} <= volumes
            assert all(isinstance(pair["value"], str) for pair in container["env"])
            wanted, most = container["resources"]["requests"], container["resources"]["limits"]
            assert wanted["memory"] == most["memory"]
            assert wanted.get("nvidia.com/gpu") == most.get("nvidia.com/gpu")
        assert pod["securityContext"]["runAsNonRoot"]


def test_there_is_a_group_for_cpus_and_one_for_gpus() -> None:
    names = {group.get("groupName", "head"): group for group in groups()}
    assert set(names) == {"head", "cpu", "gpu"}
    with_gpu = {
        name
        for name, group in names.items()
        if "nvidia.com/gpu" in group["template"]["spec"]["containers"][0]["resources"]["requests"]
    }
    assert with_gpu == {"gpu"}


def test_every_pod_has_the_model() -> None:
    """A server downloads nothing unasked, so the pod does before it, into the folder where replicas look."""
    kept = re.search(r"^VOLUME (\S+)$", (DOCS / "team" / "Containerfile").read_text(encoding="utf-8"), re.MULTILINE)
    assert kept is not None
    for group in groups():
        (first,) = group["template"]["spec"]["initContainers"]
        assert closed(first, CONTAINER)["args"][:2] == ["model", "pull"]
        (container,) = group["template"]["spec"]["containers"]
        for one in (first, container):
            assert kept[1] in {mount["mountPath"] for mount in one["volumeMounts"]}


def test_every_pod_answers_where_serve_listens() -> None:
    """KubeRay's probes go to the port of the name `serve`."""
    serve = yaml.safe_load(MANIFEST["spec"]["serveConfigV2"])
    for group in groups():
        (port,) = group["template"]["spec"]["containers"][0]["ports"]
        assert (port["name"], port["containerPort"]) == ("serve", serve["http_options"]["port"])
    assert serve["applications"][0]["import_path"] == "fastcoder_lsp.team.cluster:build"


def instructions() -> list[tuple[str, str]]:
    """The container file's, each on one line, as they are written there."""
    text = (DOCS / "team" / "Containerfile").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in joined.splitlines())]


def test_the_container_is_built_of_what_there_is() -> None:
    found = instructions()
    words = [word for word, _ in found]
    assert words[0] == "FROM"
    assert set(words) <= {
        *("FROM", "ARG", "RUN", "WORKDIR", "COPY", "USER", "ENV", "VOLUME", "EXPOSE", "ENTRYPOINT", "CMD")
    }
    sources = [source for word, rest in found if word == "COPY" for source in rest.split()[:-1]]
    assert sources
    assert all((DOCS.parent / source).exists() for source in sources)
    assert words.index("USER") < words.index("ENTRYPOINT") < words.index("CMD")
    project = tomllib.loads((DOCS.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert json.loads(dict(found)["ENTRYPOINT"])[0] in project["scripts"]
    assert {"team", "gpu"} <= set(project["optional-dependencies"])
    assert json.loads(dict(found)["CMD"])[0] == "team"


def test_the_containers_commands_are_a_shells() -> None:
    copied = ""
    for word, rest in instructions():
        if word == "COPY":
            copied += f" {rest}"
        if word == "RUN":
            subprocess.run(["sh", "-n", "-c", rest], check=True, timeout=60)
            assert all(name.split("/")[0] in copied for name in re.findall(r"fastcoder_lsp/\S+", rest))
    assert "fastcoder_lsp" in copied


def test_the_page_names_every_file() -> None:
    for file in (DOCS / "team").iterdir():
        assert f"team/{file.name}" in PAGE
