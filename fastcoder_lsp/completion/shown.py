"""What the last question was answered with, so that whoever waits there is told when there is more.

Owns the rule what is worth telling: text where nothing was shown, and text that goes on where a beginning was shown.
What is shown is never taken back or changed by that, it grows.
"""

from dataclasses import dataclass

from fastcoder_lsp.completion.place import Place
from fastcoder_lsp.core import Completion, CompletionRequest, Late


@dataclass(frozen=True, slots=True)
class Shown:
    """A question and the text that its answer showed behind the cursor, "" for none.

    `told`: whether it was said since then that there is more.
    """

    request: CompletionRequest
    place: Place
    text: str = ""
    told: bool = False

    @classmethod
    def of(cls, request: CompletionRequest, place: Place, completion: Completion) -> "Shown":
        """This answer; the popup's selected entry, which it begins with, belongs to the place already."""
        head = request.selected.text if request.selected is not None else ""
        return cls(request, place, completion.text.removeprefix(head))

    def grows_to(self, text: str) -> bool:
        """Whether `text` is more of the same."""
        return len(text) > len(self.text) and text.startswith(self.text)

    def told_of(self, uri: str, place: Place) -> bool:
        """Whether it was said that there is text at this place."""
        return self.told and self.request.snapshot.uri == uri and self.place == place

    def late(self) -> Late:
        """What is told."""
        return Late(self.request.snapshot.uri, self.request.snapshot.version, self.request.offset)
