// npm gearmanode's client, told what to do line by line; see tests/system/foreign.py for the words.
// It cannot ask for a status by unique, or submit for later. It names a job by its handle, so two submits that
// were joined are one job to it.
'use strict';
const readline = require('readline');
const gearmanode = require('gearmanode');

const [host, port] = process.argv[2].split(':');
const client = gearmanode.client({host, port: Number(port)});
const server = client.jobServers[0];
const submitted = {};

const say = (...words) => process.stdout.write('> ' + words.join(' ') + '\n');

client.on('error', (error) => say('error', error.message));

function submit(background, priority, name, unique, data) {
    const options = {background, priority: priority.toUpperCase(), toStringEncoding: 'utf8'};
    if (unique !== '.') options.unique = unique;
    return client.submitJob(name, data, options);
}

function obey(word, rest, done) {
    if (word === 'run') {
        const job = submit(false, ...rest);
        job.on('status', (s) => say('progress', s.percent_done_num, s.percent_done_den));
        job.on('workData', (data) => say('data', data));
        job.on('warning', (data) => say('warning', data));
        job.on('complete', () => { say('complete', job.response); done(); });
        job.on('failed', () => { say('fail'); done(); });
        job.on('exception', (data) => { say('exception', data); done(); });
    } else if (word === 'background') {
        const job = submit(true, ...rest);
        job.on('created', () => { submitted[job.handle] = job; say('created', job.handle); done(); });
    } else if (word === 'status' && submitted[rest[0]]) {
        submitted[rest[0]].once('status', (s) => {
            say('status', Number(s.known), Number(s.running), s.percent_done_num, s.percent_done_den);
            done();
        });
        submitted[rest[0]].getStatus();
    } else if (word === 'echo') {
        server.once('echo', (data) => { say('echo', data); done(); });
        server.echo(rest[0]);
    } else {
        say('cannot');
        done();
    }
}

server.once('option', () => {
    const lines = readline.createInterface({input: process.stdin});
    lines.on('line', (line) => {
        const [word, ...rest] = line.split(' ');
        obey(word, rest, () => say('ok'));
    });
    lines.on('close', () => process.exit(0));
});
server.setOption('exceptions');
