"""The engine: many independent gradient-matching problems on one network at once."""
