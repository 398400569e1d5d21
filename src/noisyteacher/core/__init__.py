"""What every folder may use: errors, atomic files, the machine."""
