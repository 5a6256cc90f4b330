"""Serve's own choice of a replica, by the document: the one that it belongs to, else the next with room.

Owns the order; Serve owns everything else. Its router asks each in turn whether it has a place free
(`max_ongoing_requests`), which bounds what a replica of many busy documents takes: consistent hashing with bounded
loads (Mirrokni, Thorup, Zadimoghaddam, 2018). Made on the public interface `ray.serve.request_router`; Serve's router
by session id is experimental and knows nothing of load. Imported in the process that asks, by its name.
"""

from ray.serve.request_router import PendingRequest, RequestRouter, RunningReplica

from fastcoder_lsp.team.places import preferred
from fastcoder_lsp.team.values import Call


class DocumentRouter(RequestRouter):  # type: ignore[misc]  # Ray may be absent where types are checked
    """A replica for each document."""

    async def choose_replicas(
        self, candidate_replicas: list[RunningReplica], pending_request: PendingRequest | None = None
    ) -> list[list[RunningReplica]]:
        """The candidates one by one, the document's own first; all at once where nothing says whose request it is."""
        call = pending_request.args[0] if pending_request and pending_request.args else None
        if not isinstance(call, Call):
            return [candidate_replicas]
        named = {str(replica.replica_id.unique_id): replica for replica in candidate_replicas}
        return [[named[name]] for name in preferred(call.place, named)]
