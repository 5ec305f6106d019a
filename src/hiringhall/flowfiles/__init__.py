"""Files that describe a flow: what people write, read into tasks that are known to fit together."""
