"""Serve's own choice of a replica, by the document: the one that it belongs to, else the next with room to spare.

Owns the order; Serve owns everything else. Its router asks each in turn whether it has a place free
(`max_ongoing_requests`), which bounds what a replica of many busy documents takes: consistent hashing with bounded
loads (Mirrokni, Thorup, Zadimoghaddam, 2018). Made on the public interface `ray.serve.request_router`; Serve's router
by session id is experimental and knows nothing of load. Imported in the process that asks, by its name.
"""

from ray.serve.request_router import PendingRequest, RequestRouter, RunningReplica

from fastcoder_lsp.team.calls import Call, preferred, with_room


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
        order = preferred(call.place, named)
        known = self.replica_queue_len_cache
        open_ = {name: known.get(replica.replica_id) for name, replica in named.items()}
        most = min((replica.max_ongoing_requests for replica in candidate_replicas), default=1)
        return [[named[name]] for name in with_room(order, open_, most)]
