"""Pure tensor arithmetic: no files, no randomness, no state."""
