"""Votes of people and of classifiers: tables of others, and what is made of them."""
