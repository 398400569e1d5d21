"""Doors for your own program: PyTorch loops, Hugging Face Trainer, Lightning, scikit-learn.

Each file is a door of its own, imported by its name, so that none asks for another's library.
"""
