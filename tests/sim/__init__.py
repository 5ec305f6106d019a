"""A whole hall inside one deterministic run: real scheduler, engine and sessions; the network, the clock, the
disk's faults and the people are simulated. One seed, one run, one log.

    world      the clock, the events, the randomness, the log
    network    links that cut, delay, stall, drop and go half-open
    post       ZeroMQ's lines: whole messages that are lost, peers that go without a word and come back
    disk       a store behind a writer that is slow, fails, or loses the hall in mid-commit
    hall       the process: turns, crashes, new boots
    router, zmqdoors: the ZeroMQ doors, by the rules of the transport
    owndialect a small dialect that reaches every verb of the core
    actors, clients, workers, hostile: who comes in by a stream
    callers, dworkactors, pingpongactors, wmpactors, wmpmanager: who comes by ZeroMQ
    crowd      all of these, in two of five worlds
    draftactors: who speaks Gearman's draft, in one of five worlds
    nativeactors, beanactors: who speaks the native protocol, or that of beanstalkd, in one of four worlds each
    hirelings, hireactors, hirebus, hiredoors: who bids and who announces, by lines and on a bus, in two others
    taps, and a tap for each dialect (gearmantap, nativetap ...): what crossed a link
    sights, laws, startlaws, handlaws, storelaws, turnlaws, wakelaws: what must hold, seen from outside
    scenario   a seed becomes a world; faults first, then everything must drain
    clusterworld: several halls on one database, in worlds of their own: clustermember, a process that stands
               by, takes over and makes way; clusterdatabase, the rows that decide; clusterlink, the way there;
               clusterstore, commits; clusterpassing, clusteractors, clusterlaws
    runs       which of both a seed is
    long       many seeds on all cores
    planted, and one for each part (plantedzmq, plantedcluster ...): bugs that the laws must find
"""
