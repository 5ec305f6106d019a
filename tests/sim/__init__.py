"""A whole hall inside one deterministic run: real scheduler, engine and sessions; the network, the clock, the
disk's faults and the people are simulated. One seed, one run, one log.

    world      the clock, the events, the randomness, the log
    network    links that cut, delay, stall, drop and go half-open
    disk       a store behind a writer that is slow, fails, or loses the hall in mid-commit
    hall       the process: turns, crashes, new boots
    native     a small dialect that reaches every verb of the core
    actors, clients, workers, hostile: who comes in
    taps, gearmantap, nativetap: what crossed a link, as events
    sights, laws, startlaws, storelaws, turnlaws: what must hold, seen from outside
    scenario   a seed becomes a world; faults first, then everything must drain
    planted    bugs that the laws must find
"""
