"""One file per layout on disk; each has ``find(place, options) -> Found | None``."""
