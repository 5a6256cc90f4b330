"""A silent host is asked, then given up, then replaced; only while somebody waits, and by moments in which we ran."""

from fastcoder_lsp.host.liveness import Heartbeat, SilenceLimits


class Watched:
    """A heartbeat whose looks the test takes itself: what counts is how often it could look, and no clock."""

    def __init__(self) -> None:
        self.awaited, self.loading, self.did = True, False, list[str]()
        self.heartbeat = Heartbeat(
            lambda: self.awaited,
            lambda: self.loading,
            lambda: self.did.append("ask"),
            lambda: self.did.append("resume"),
            lambda: self.did.append("silent"),
            lambda: self.did.append("hung"),
            SilenceLimits(tick_s=3600, asked=2, silent=5, hung=9, loading=3),
        )

    def look(self, times: int) -> list[str]:
        """What came of so many more looks."""
        self.did.clear()
        for _ in range(times):
            self.heartbeat._look()
        return [what for what in self.did if what != "resume"]

    def resumed(self) -> int:
        """How often it was to go on, during the last looks."""
        return self.did.count("resume")


def test_a_stopped_host_goes_on_soon_and_before_it_is_given_up() -> None:
    watched = Watched()
    watched.look(1)
    assert not watched.resumed()
    for _ in range(5):
        watched.look(1)
        assert watched.resumed()
    watched.heartbeat.close()


def test_a_silent_host_is_asked_given_up_and_replaced() -> None:
    watched = Watched()
    assert watched.look(4) == ["ask"]
    assert watched.look(1) == ["silent"]
    assert watched.look(3) == []
    assert watched.look(1) == ["hung"]
    watched.heartbeat.close()


def test_a_word_begins_it_anew() -> None:
    watched = Watched()
    watched.look(8)
    watched.heartbeat.heard()
    assert watched.look(4) == ["ask"]
    watched.heartbeat.close()


def test_a_host_that_loads_a_model_has_more_time() -> None:
    watched = Watched()
    watched.loading = True
    assert watched.look(14) == ["ask"]
    assert watched.look(1) == ["silent"]
    assert watched.look(12) == ["hung"]
    watched.heartbeat.close()


def test_who_waits_for_nothing_counts_nothing() -> None:
    watched = Watched()
    watched.look(4)
    watched.awaited = False
    assert watched.look(20) == []
    watched.awaited = True
    assert watched.look(4) == ["ask"]
    watched.heartbeat.close()
