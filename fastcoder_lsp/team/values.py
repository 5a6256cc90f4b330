"""Values that pass between the gateway and the replicas; any process can unpickle them."""

from dataclasses import dataclass

from fastcoder_lsp.http.infill import InfillAnswer, InfillRequest


@dataclass(frozen=True, slots=True)
class Tenant:
    """The owner of a request; tenants never see each other's texts.

    Attributes:
        key: the key's id; "" without keys.
        workspace: the client's name for its workspace.
        repositories: the names of repositories that may draft.
    """

    key: str = ""
    workspace: str = ""
    repositories: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Call:
    """One request to a replica.

    Attributes:
        place: a hash of the document's name, which replicas are chosen by.
        tenant: the owner.
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
        replica: the name of the replica.
        waited_ms: milliseconds in the replica, including its queue.
    """

    said: InfillAnswer
    replica: str
    waited_ms: float


@dataclass(frozen=True, slots=True)
class ReplicaRefusal:
    """A replica cannot answer.

    Attributes:
        code: the HTTP status.
        message: the text for the user.
    """

    code: int
    message: str
