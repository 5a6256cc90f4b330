"""TRAINING: models and drafters, from a user's texts to a folder that the ordinary loader takes.

Owns data, losses, the training loop, checkpoints and the merged export. torch, transformers and peft are imported only
here and in the engine, and only when a training runs. Never decodes for a user, and never reads excluded files.
"""
