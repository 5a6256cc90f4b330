"""The drafters that `auto` is made of, behind the interface `base.Drafter`; the others are in `papers`."""
