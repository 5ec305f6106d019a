"""What workers have and jobs need: never overbooked, with reservations for large jobs."""
