"""Votes: what people and judges are asked, what counts as recognised, and how votes come in and go out."""
