"""What one tenant types is nothing to another: neither KV caches, nor what was learnt, nor chunks of other files."""

from collections.abc import Callable
from pathlib import Path

from fastcoder_lsp.team.calls import Tenant
from fastcoder_lsp.team.keys import KeyFile
from tests.team.toy_team import ToyTeam

TEXT = "secret_name = load_secret()\n" * 20


def test_a_document_is_its_tenants_alone(start: Callable[..., ToyTeam], tmp_path: Path) -> None:
    """Another key, or the same key in another workspace, that names the document and gives its text finds nothing."""
    keys = KeyFile(tmp_path / "keys.json")
    ada, eve = keys.add("ada"), keys.add("eve")
    team = start(keys=keys)
    team.infill(TEXT, "a.py", ada, "work")
    own = team.infill(f"{TEXT}x", "a.py", ada, "work")
    assert own["tokens_cached"] > len(TEXT) // 2, "its own tenant finds it"
    for key, workspace in ((eve, "work"), (ada, "play"), (eve, "")):
        assert team.infill(f"{TEXT}y", "a.py", key, workspace)["tokens_cached"] == 0


def test_tenants_beyond_what_is_kept_give_way(start: Callable[..., ToyTeam]) -> None:
    """The one that asked least recently, and is answered again when it comes back."""
    team = start("[replicas]\ntenants = 3")
    tenants = team.replicas[0]._tenants
    for number in range(5):
        team.infill(TEXT, "a.py", workspace=f"work-{number}")
    assert [tenant.workspace for tenant in tenants._of] == ["work-2", "work-3", "work-4"]
    team.until(lambda: team.replicas[0]._core.fronts() == 4)  # and the replica's own
    assert team.infill(TEXT, "a.py", workspace="work-0")["tokens_cached"] == 0
    assert Tenant(workspace="work-0") in tenants._of


def test_many_workspaces_of_one_key_push_out_no_other_ones(start: Callable[..., ToyTeam], tmp_path: Path) -> None:
    """Their own, the one that asked least recently first; between keys that have alike, that decides, too."""
    keys = KeyFile(tmp_path / "keys.json")
    ada, ben, eve = (keys.add(name) for name in ("ada", "ben", "eve"))
    team = start("[replicas]\ntenants = 4", keys=keys)
    names = {key.id: key.name for key in keys.load()}

    def kept() -> list[tuple[str, str]]:
        return [(names[tenant.key], tenant.workspace) for tenant in team.replicas[0]._tenants._of]

    for key, workspace in ((ada, "a"), (ben, "b"), *((eve, f"e{number}") for number in range(6))):
        team.infill(TEXT, "a.py", key, workspace)
    assert kept() == [("ada", "a"), ("ben", "b"), ("eve", "e4"), ("eve", "e5")]
    for workspace in ("a2", "a3"):
        team.infill(TEXT, "a.py", ada, workspace)
    assert kept() == [("ben", "b"), ("eve", "e5"), ("ada", "a2"), ("ada", "a3")]
