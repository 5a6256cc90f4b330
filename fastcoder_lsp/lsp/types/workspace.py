"""What is told of the workspace, and commands."""

from typing import Any

from fastcoder_lsp.lsp.types.places import Value


class WorkspaceFolder(Value, frozen=True):
    """A folder of the workspace."""

    uri: str


class WorkspaceFoldersChangeEvent(Value, frozen=True):
    """Folders that came and went."""

    added: list[WorkspaceFolder]
    removed: list[WorkspaceFolder]


class DidChangeWorkspaceFoldersParams(Value, frozen=True):
    """`workspace/didChangeWorkspaceFolders`."""

    event: WorkspaceFoldersChangeEvent


class DidChangeConfigurationParams(Value, frozen=True):
    """`workspace/didChangeConfiguration`."""

    settings: Any = None


class FileEvent(Value, frozen=True):
    """A file changed outside the editor."""

    uri: str


class DidChangeWatchedFilesParams(Value, frozen=True):
    """`workspace/didChangeWatchedFiles`."""

    changes: list[FileEvent]


class FileRename(Value, frozen=True):
    """A file's or folder's names."""

    old_uri: str
    new_uri: str


class RenameFilesParams(Value, frozen=True):
    """`workspace/didRenameFiles`."""

    files: list[FileRename]


class ExecuteCommandParams(Value, frozen=True):
    """`workspace/executeCommand`."""

    command: str
    arguments: list[Any] | None = None
