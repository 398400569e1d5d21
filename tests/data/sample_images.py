"""Encoded images for tests."""

from __future__ import annotations

from io import BytesIO

import numpy as np
from PIL import Image


def encoded(picture: np.ndarray, form: str = "PNG") -> bytes:
    """The bytes of an image file."""
    buffer = BytesIO()
    Image.fromarray(picture).save(buffer, form)
    return buffer.getvalue()
