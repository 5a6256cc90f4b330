"""Training of models and drafters, from a user's texts to a folder that the ordinary loader takes.

torch, transformers and peft are imported only here and in the engine, and only when a training runs. Excluded files are
never read.
"""
