"""The user's whole way: from stored teacher labels to a finished student."""

from noisyteacher.distill.generations import next_labels

__all__ = ["next_labels"]
