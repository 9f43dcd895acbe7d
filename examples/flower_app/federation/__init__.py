"""A federation on several machines."""
