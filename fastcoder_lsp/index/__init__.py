"""The live datastore: suffix arrays over token ids that follow a repository file by file while being searched.

Callers choose the texts and their keys; this package knows nothing of models, editors or ignore rules.
"""
