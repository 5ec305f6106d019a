"""The scheduler: jobs, queues, leases, graph, limits.

Invariant: nothing here touches a socket, a clock, a thread, randomness or a log. Time comes in as an
integer of microseconds, answers go out as return values, news go out as calls on `Peer`, and what must
be remembered goes out as a `Batch`. So a whole hall runs inside one deterministic test.
"""
