"""`python -m hiringhall` is `hall`."""

from hiringhall.cli.main import main

main()
