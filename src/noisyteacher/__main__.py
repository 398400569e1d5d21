"""``python -m noisyteacher``, which ``torchrun -m`` needs."""

from noisyteacher.cli import main

main()
