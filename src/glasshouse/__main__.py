"""``python -m glasshouse``."""

from glasshouse.cli.main import main

main()
