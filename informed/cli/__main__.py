"""`python -m informed.cli`."""

from informed.cli.commands import main

main()
