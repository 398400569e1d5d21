"""Integrations with PyTorch loops, the Hugging Face Trainer, Lightning and scikit-learn.

Import each module by its name, so that none of them needs another's library.
"""
