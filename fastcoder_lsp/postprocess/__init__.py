"""PURE TEXT after the model: overlap with the suffix, brackets, indentation, whole lines and blocks."""
