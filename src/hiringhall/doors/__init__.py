"""The doors of each dialect: their settings, and what opens them. One module per dialect."""
