"""A Serve request router that prefers a document's own replica, and then the next one with room to spare.

Serve's router asks each replica in turn whether it has a free place (`max_ongoing_requests`), which bounds the load of
a replica with many busy documents: consistent hashing with bounded loads (Mirrokni, Thorup, Zadimoghaddam, 2018). Uses
the public interface `ray.serve.request_router`; Serve's router by session id is experimental and ignores load. Serve
imports the module by its name in the requesting process.
"""

from ray.serve.request_router import PendingRequest, RequestRouter, RunningReplica

from fastcoder_lsp.team.calls import Call, preferred, with_room


class DocumentRouter(RequestRouter):  # type: ignore[misc]  # Ray may be absent where types are checked
    """Routes each document to its replica."""

    async def choose_replicas(
        self, candidate_replicas: list[RunningReplica], pending_request: PendingRequest | None = None
    ) -> list[list[RunningReplica]]:
        """The candidates one by one, the document's own first; all at once for a request without a document."""
        call = pending_request.args[0] if pending_request and pending_request.args else None
        if not isinstance(call, Call):
            return [candidate_replicas]
        named = {str(replica.replica_id.unique_id): replica for replica in candidate_replicas}
        order = preferred(call.place, named)
        known = self.replica_queue_len_cache
        open_ = {name: known.get(replica.replica_id) for name, replica in named.items()}
        most = min((replica.max_ongoing_requests for replica in candidate_replicas), default=1)
        return [[named[name]] for name in with_room(order, open_, most)]
