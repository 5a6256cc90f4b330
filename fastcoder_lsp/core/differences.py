"""Where two texts are alike, by halving: comparing slices is fast, comparing characters is not."""


def first_difference(left: str, right: str) -> int:
    """Where two texts begin to differ; the length of the shorter one where that is all of it."""
    same, different = 0, min(len(left), len(right)) + 1
    while different - same > 1:
        middle = (same + different) // 2
        if left[same:middle] == right[same:middle]:
            same = middle
        else:
            different = middle
    return same


def common_end(left: str, right: str, most: int) -> int:
    """How many characters, `most` at most, are the same at the end of both."""
    same, different = 0, min(len(left), len(right), most) + 1
    while different - same > 1:
        middle = (same + different) // 2
        if left[len(left) - middle : len(left) - same] == right[len(right) - middle : len(right) - same]:
            same = middle
        else:
            different = middle
    return same
