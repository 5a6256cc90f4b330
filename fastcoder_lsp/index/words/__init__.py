"""The word index: identifiers and their parts, and the files that contain them.

It stores numbers of words and of files; no text, and none can be recovered. `prompt/retrieval` ranks pieces of files.
"""
