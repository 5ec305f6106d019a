"""Scheduled jobs: the plans, the file that stores them, and the keeper that fires them."""
