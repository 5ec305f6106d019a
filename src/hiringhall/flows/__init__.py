"""Files that describe a flow, and pictures of flows. Only `reading` does I/O."""
