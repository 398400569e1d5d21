"""noisyteacher: train small models from the stored, imperfect labels of a big one."""

__version__ = "0.1.0"
