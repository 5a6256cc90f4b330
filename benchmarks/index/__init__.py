"""`bench index`: how fast the datastore is built, searched and brought up to date, and how large it is.

Measures on real code (the standard library of the running Python, repeated with other names to reach larger sizes), and
through the same classes that the server uses. Needs a model's tokenizer, not the model.
"""
