"""What passes between the gateway and the replicas: plain values, which any process can read."""

from dataclasses import dataclass

from fastcoder_lsp.http.infill import InfillAnswer, InfillRequest


@dataclass(frozen=True, slots=True)
class Tenant:
    """Whose request it is: nothing of one is seen by another.

    Attributes:
        key: the id of the key; "" where there are none.
        workspace: what the client calls what is worked on.
        repositories: whose code may draft.
    """

    key: str = ""
    workspace: str = ""
    repositories: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Call:
    """One request to a replica.

    Attributes:
        place: stands for the document; replicas are chosen by it.
        tenant: whose it is.
        ask: the question.
    """

    place: str
    tenant: Tenant
    ask: InfillRequest


@dataclass(frozen=True, slots=True)
class ReplicaAnswer:
    """A replica's answer.

    Attributes:
        said: the answer.
        replica: who gave it.
        waited_ms: milliseconds in the replica, its queue and all.
    """

    said: InfillAnswer
    replica: str
    waited_ms: float


@dataclass(frozen=True, slots=True)
class ReplicaRefusal:
    """A replica cannot answer.

    Attributes:
        code: HTTP's status.
        message: for a person.
    """

    code: int
    message: str
