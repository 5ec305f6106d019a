"""Who may come in, and what they did: tokens, and the audit log."""
