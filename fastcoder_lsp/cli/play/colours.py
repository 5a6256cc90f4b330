"""The colours of `play`: the terminal's own sixteen, so that light and dark themes both stay readable."""

from prompt_toolkit.styles import Style

STYLE = Style.from_dict(
    {
        "ghost": "ansibrightblack italic",
        "line-number": "ansibrightblack",
        "line-number.current": "ansidefault",
        "tabs": "reverse",
        "tab": "",
        "tab.current": "noreverse bold",
        "status": "reverse",
        "state.ready": "ansigreen",
        "state.thinking": "ansiyellow",
        "state.loading": "ansiyellow",
        "state.error": "ansired",
        "message": "ansired",
        "key": "bold",
        "keys": "ansibrightblack",
        "pygments.keyword": "ansimagenta",
        "pygments.keyword.constant": "ansicyan",
        "pygments.name.builtin": "ansicyan",
        "pygments.name.class": "ansiblue bold",
        "pygments.name.function": "ansiblue",
        "pygments.name.decorator": "ansicyan",
        "pygments.literal.number": "ansicyan",
        "pygments.literal.string": "ansiyellow",
        "pygments.comment": "ansigreen",
    }
)
