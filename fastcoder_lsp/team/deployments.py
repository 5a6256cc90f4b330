"""The Ray Serve application: a gateway, and replicas of the model behind it, with Serve's options."""

import asyncio
import hashlib
import time
from collections import deque
from pathlib import Path
from typing import Any

from ray import serve
from ray.exceptions import ActorUnavailableError, RayActorError, RayError, RayTaskError
from ray.serve.config import AutoscalingConfig, AutoscalingPolicy, RequestRouterConfig
from ray.serve.exceptions import BackPressureError, DeploymentUnavailableError, ReplicaUnavailableError
from ray.serve.handle import DeploymentHandle

from fastcoder_lsp import __version__
from fastcoder_lsp.config import cache_folder
from fastcoder_lsp.team.autoscaling import FIRST_TEXT
from fastcoder_lsp.team.calls import Call, ReplicaAnswer, ReplicaCalls, ReplicaRefusal, coming, time_to_read
from fastcoder_lsp.team.configuration import TeamConfig
from fastcoder_lsp.team.counts import RequestFile, RequestOutcome
from fastcoder_lsp.team.gateway import Gateway
from fastcoder_lsp.team.keys import KeyFile, Refusal
from fastcoder_lsp.team.replica import TeamReplica
from fastcoder_lsp.team.repositories import Repositories
from fastcoder_lsp.team.scripted import MODULE, PREFIX

TRIES = 4  # most replicas to ask, one after the other, if each dies during the request; completions may be retried
_PAUSE_S = 0.05
_HEALTH_S = 3.0
_RECENT = 200  # recent answers that the reported time to first text is computed from
_HELD_S = 2.0
_LOADS = 3  # attempts to start a replica before the server reports that it cannot start
_GATEWAY_OPEN = 2000  # most open requests of a gateway, including those with an incomplete body


class ModelReplica:
    """Serve's replica of the model; replicas with another `version` will be replaced."""

    async def __init__(self, config: TeamConfig, version: str) -> None:  # type: ignore[misc]  # as Serve allows it
        context = serve.get_replica_context()
        name = str(context.replica_id.unique_id)
        module = MODULE if str(config.model.get("model", "")).startswith(PREFIX) else "fastcoder_lsp.runtime.load"
        self._repositories = Repositories(config.repositories, cache_folder() / "team", config.settings())
        self._repositories.follow()
        self._replica = TeamReplica(config, name, self._repositories.folders, module, version)
        self._took_ms: deque[float] = deque(maxlen=_RECENT)
        # Requests come after this: until then the other replicas serve the documents that will be its own.
        held = await _held_by_all(context.deployment, context.app_name)
        await self._replica.read(coming(held, name, version), time_to_read(held, version))

    async def answer(self, call: Call) -> ReplicaAnswer | ReplicaRefusal:
        """Answer a call."""
        answer = await self._replica.answer(call)
        if isinstance(answer, ReplicaAnswer):
            self._took_ms.append(answer.waited_ms)
        return answer

    async def held(self) -> ReplicaCalls:
        """The recent calls, for a starting replica."""
        return self._replica.held()

    async def ready(self) -> bool:
        """Whether the replica can answer."""
        self._replica.check()
        return True

    def check_health(self) -> None:
        """Serve's health check: it replaces a replica that raises."""
        self._replica.check()

    def record_autoscaling_stats(self) -> dict[str, float]:
        """The figures for Serve's autoscaling."""
        took = sorted(self._took_ms)
        return {FIRST_TEXT: took[int(0.95 * len(took))] if took else 0.0}

    def __del__(self) -> None:
        """Close the replica; Serve calls this after draining it."""
        if (replica := getattr(self, "_replica", None)) is not None:
            self._repositories.close()
            replica.close()


async def _held_by_all(deployment: str, app: str) -> list[ReplicaCalls]:
    """The recent calls of all running replicas; empty if there are none, or if they do not answer in time."""
    response = serve.get_deployment_handle(deployment, app).broadcast("held")
    try:
        told = await response.results_async(timeout_s=_HELD_S, return_exceptions=True)
    except (TimeoutError, RayError, DeploymentUnavailableError, ReplicaUnavailableError):
        return []
    return [one for one in told if isinstance(one, ReplicaCalls)]


class ServeReplicas:
    """`gateway.Replicas` over a handle of Serve's."""

    def __init__(self, handle: DeploymentHandle) -> None:
        self._handle = handle
        self._took_s = 1.0
        self._health: tuple[float, bool] = (-_HEALTH_S, False)

    async def answer(self, call: Call) -> ReplicaAnswer | ReplicaRefusal | Refusal:
        """Answer a call; if a replica dies during it, the next one answers."""
        for attempt in range(TRIES):
            response = self._handle.answer.remote(call)
            try:
                answer: ReplicaAnswer | ReplicaRefusal = await response
            except BackPressureError:
                return Refusal("all replicas are busy and the queue is full", max(1, round(2 * self._took_s)))
            except asyncio.CancelledError:
                response.cancel()
                raise
            except (RayActorError, ActorUnavailableError, ReplicaUnavailableError):
                await asyncio.sleep(_PAUSE_S * attempt)
                continue
            except DeploymentUnavailableError:
                return ReplicaRefusal(503, "no replica can start; see the server's log")
            except RayTaskError:
                return ReplicaRefusal(500, "the replica failed; see its log")
            if isinstance(answer, ReplicaAnswer):
                self._took_s += 0.1 * (answer.waited_ms / 1e3 - self._took_s)
            return answer
        return ReplicaRefusal(503, "the replicas ended during the request")

    async def can_answer(self) -> bool:
        """Whether a replica can answer; checked at most once a second."""
        at, was = self._health
        if time.monotonic() - at < 1.0:
            return was
        response = self._handle.ready.remote()
        try:
            good = bool(await asyncio.wait_for(response, _HEALTH_S))
        except BackPressureError:
            good = True  # they are busy, so they answer
        except (TimeoutError, RayError, DeploymentUnavailableError, ReplicaUnavailableError):
            response.cancel()
            good = False
        self._health = time.monotonic(), good
        return good


@serve.ingress()
class TeamGateway:
    """Serve's ingress: the gateway."""

    def __init__(self, config: TeamConfig, handle: DeploymentHandle) -> None:
        written = RequestFile(Path(config.records.requests)) if config.records.requests else None

        def told(outcome: RequestOutcome) -> None:
            if written is not None and outcome.route:
                written.write(outcome)

        settings = config.settings()
        keys = KeyFile(Path(config.keys)) if config.keys else None
        replicas = ServeReplicas(handle)
        self._gateway = Gateway(
            replicas.answer, replicas.can_answer, keys, config.limits, told, settings.model, settings.context_tokens
        )

    def __serve_build_asgi_app__(self) -> Gateway:
        """The ASGI application for Serve."""
        return self._gateway


def application(config: TeamConfig, generation: str = "") -> Any:
    """The Serve application of a configuration; a new `generation`, or a change, replaces all replicas."""
    of_a_replica = config.of_a_replica()
    model = _model(config)
    gateway = serve.deployment(
        TeamGateway,
        name="Door",
        num_replicas=1,
        ray_actor_options={"num_cpus": 0},
        max_ongoing_requests=_GATEWAY_OPEN,
        graceful_shutdown_wait_loop_s=0.2,
        graceful_shutdown_timeout_s=config.replicas.drain_s,
        max_surge_percent=100,
        health_check_period_s=2.0,
    )
    of_model = _version(repr((__version__, generation, of_a_replica)))
    _set_version(model, of_model)
    _set_version(gateway, _version(repr((__version__, generation, config))))
    return gateway.bind(config, model.bind(of_a_replica, of_model))


def _version(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _set_version(deployment: Any, version: str) -> None:
    deployment._version = version  # noqa: SLF001 there is no public way


def _model(config: TeamConfig) -> Any:
    replicas = config.replicas
    options: dict[str, Any] = {"num_cpus": replicas.cpus, "num_gpus": replicas.gpus}
    count: dict[str, Any] = {"num_replicas": replicas.least}
    if config.most_replicas > replicas.least:
        policy = AutoscalingPolicy(
            policy_function="fastcoder_lsp.team.autoscaling:ScalingPolicy",
            policy_kwargs={"target_open": replicas.target_open, "target_ms": replicas.first_text_ms},
        )
        count = {
            "autoscaling_config": AutoscalingConfig(
                min_replicas=replicas.least,
                max_replicas=config.most_replicas,
                target_ongoing_requests=replicas.target_open,
                policy=policy,
            )
        }
    return serve.deployment(
        ModelReplica,
        name="Model",
        ray_actor_options=options,
        max_ongoing_requests=replicas.open,
        max_queued_requests=replicas.waiting,
        graceful_shutdown_wait_loop_s=0.2,
        graceful_shutdown_timeout_s=replicas.drain_s,
        health_check_period_s=2.0,
        health_check_timeout_s=15.0,
        max_constructor_retry_count=_LOADS,
        max_surge_percent=replicas.surge_percent,
        request_router_config=RequestRouterConfig(
            request_router_class="fastcoder_lsp.team.router:DocumentRouter",
            initial_backoff_s=0.005,
            backoff_multiplier=1.5,
            max_backoff_s=0.05,
        ),
        **count,
    )
