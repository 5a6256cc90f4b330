"""The codes of all reasons for an empty answer, of completions and of next edits (`core.Reason`)."""

from typing import Final

CODES: Final = (
    "slow",  # no suggestion was ready within the budget; the text says how much longer it takes
    "loading",  # the model loads, or its code compiles; the text says which, and the progress
    "secret",  # the line or the file looks like a secret
    "ignored",  # rules of the workspace or settings exclude the file
    "large",  # the file or a line of it is too large
    "in-word",  # the cursor is inside a word
    "in-comment",  # the cursor is in a comment, and `where.comments` says no
    "in-string",  # the cursor is in a string, and `where.strings` says no
    "in-prose",  # the text is prose, and `where.prose` says no
    "deletion",  # the last change removed text, and `quiet.deletions` is on
    "short",  # the suggestion has fewer characters than `quiet.min_characters`
    "by-key",  # `quiet.mode` leaves suggestions to the key
    "snoozed",  # the user snoozed suggestions
    "off",  # completion is switched off
    "rejected",  # you dismissed or typed over several suggestions in a row
    "nothing",  # the suggestion was filtered out
    "unsure",  # the suggestion is a mark or two, or the model is unsure of it
    "end",  # the model had nothing to add
    "error",  # something failed; the text says what
    "host",  # the shared model process is gone, or does not answer; the text says which
    "remote-setting",  # the address, the key or the proxy of the remote server is not usable as set
    "remote-unallowed",  # `remote.allow` does not name the server
    "remote-key",  # the server rejects the key (401)
    "remote-forbidden",  # the server denies access (403)
    "remote-model",  # the server has no such model or address (404)
    "remote-rejected",  # the server rejects the request (other 4xx)
    "remote-busy",  # the server takes no more requests at the moment (429)
    "remote-broken",  # the server failed (5xx, or in the middle of an answer)
    "remote-moved",  # the server redirects to another address (3xx)
    "remote-unreachable",  # the server cannot be reached
    "remote-silent",  # the server did not answer in time
    "remote-cut",  # the answer broke off
    "remote-page",  # the answer came from a proxy, or from another service
    "remote-tls",  # the server's certificate is not valid
    "remote-name",  # the name has no address
    "remote-refused",  # no server listens there
    "superseded",  # a newer request came first
    "cancelled",  # the editor cancelled the request
    "changed",  # the document has changed since
    "edit-model",  # there is no edit model, or it cannot be loaded; the text says which
    "edit-remote",  # a server in the model's place suggests no edits
    "edit-place",  # the edit model cannot be asked about this place
    "edit-none",  # the edit model suggests no change
    "edit-unmodified",  # the user has not changed the document, or only files whose code may not be in prompts
    "edit-key",  # edits are suggested only by key
    "edit-ghost",  # the edit only inserts text at the cursor
    "edit-deletion",  # the last change is a lone deletion
    "edit-typing",  # the user types fast
    "edit-pasted",  # the user has just pasted something
    "edit-paused",  # the user has just rejected an edit
    "edit-cut",  # the answer reached the token limit
    "edit-blank",  # only blank lines or trailing blanks change
    "edit-revert",  # it takes back what the user just did
    "edit-above",  # it inserts lines, or rewrites many, above the cursor only
    "edit-unsure",  # the model is unsure of it
    "edit-rejected",  # the user has rejected this edit before
    "edit-silent",  # the user has rejected the last edits of its kind
    "edit-unwanted",  # the user rejects most edits of its kind in this language
)
