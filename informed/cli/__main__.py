"""`python -m informed.cli`."""

from informed.cli.main import main

main()
