"""How many examples Hypothesis tries, where a test names a number: all in CI, a quarter in a run that is made often."""

import hypothesis


def examples(in_ci: int) -> int:
    return in_ci if hypothesis.settings.get_current_profile_name() == "ci" else max(in_ci // 4, 10)
