"""The rules of a queue: limits for what runs and starts, tenants that share it, debounce and throttle."""
