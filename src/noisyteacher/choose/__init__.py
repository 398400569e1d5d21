"""Which student to return, and whether the teacher was worth it: decided on all gold rows."""
