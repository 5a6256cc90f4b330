"""Plain JSON of a client's, of which nothing is known before it is looked at."""


def at(value: object, *names: str) -> object:
    """What stands at a path of names; None where anything on the way is missing or no table."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value
