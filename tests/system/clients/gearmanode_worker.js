// npm gearmanode's worker with the functions of tests/system/foreign.py.
'use strict';
const readline = require('readline');
const gearmanode = require('gearmanode');

const [host, port] = process.argv[2].split(':');
const worker = gearmanode.worker({host, port: Number(port), withUnique: true});
const say = (...words) => process.stdout.write('> ' + words.join(' ') + '\n');

worker.on('error', (error) => say('error', error.message));
worker.setWorkerId('gearmanode');

const functions = {
    reverse: (job) => job.workComplete([...job.payload].reverse().join('')),
    count: (job) => {
        for (const step of [1, 2, 3]) job.reportStatus(step, 3);
        job.workComplete('counted');
    },
    chunks: (job) => {
        job.sendWorkData('one');
        job.sendWorkData('two');
        job.workComplete('three');
    },
    warn: (job) => {
        job.reportWarning('careful');
        job.workComplete('warned');
    },
    fail: (job) => job.reportError(),
    raise: (job) => job.reportException('boom'),
    unique: (job) => job.workComplete(job.unique),
    gate: (job) => {
        job.reportStatus(3, 7);
        say('gate');
        readline.createInterface({input: process.stdin}).once('line', () => job.workComplete('opened'));
    },
};
for (const [name, act] of Object.entries(functions)) worker.addFunction(name, act, {toStringEncoding: 'utf8'});
say('ready');
