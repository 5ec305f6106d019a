"""What a person can set at a door of each dialect, and what the door opens with it: one module a dialect."""
