"""WHICH FILES USE THESE WORDS: identifiers and their parts, and an index of the files that hold them.

Owns numbers of words and of files; no text is kept, and none can be told from what is. Ranking pieces of files is
`prompt/retrieval`'s.
"""
