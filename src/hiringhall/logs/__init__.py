"""The log: events become records, repeated ones are counted, and a thread of its own writes the lines."""
