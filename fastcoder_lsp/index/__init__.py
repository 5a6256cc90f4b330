"""The live datastore: suffix arrays over token ids that follow a repository file by file while being searched.

Owns segments, manifest, tail, merging and search. It is handed texts under keys and chooses none of them; it knows
nothing of models, editors or ignore rules.
"""
