"""Several halls on one database: one is active, the others stand by and take over when it is gone."""
