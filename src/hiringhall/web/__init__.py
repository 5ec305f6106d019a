"""The web process: the HTTP API, the metrics and the dashboard, beside a hall.

It is a client of the hall's native door like any other, and reads the history from the data folder itself.
Invariant: no HTTP request costs the hall more than bounded native queries, and the same question asked by many
browsers within a second costs what one costs.
"""
