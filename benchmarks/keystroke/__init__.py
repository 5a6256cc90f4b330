"""`bench keystroke`: a history typed as a person types, against the real server over stdio.

`run` is the command; the rules of the typing stand in `hands`, what is counted in `figures`.
"""
