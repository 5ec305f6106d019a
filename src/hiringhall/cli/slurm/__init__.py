"""`hall work --slurm`: workers as Slurm jobs, as many as the queues need."""
