/* The limit for a Gearman server on one thread: it passes packets on and does nothing else.
 *
 * It has one queue for all functions, and no priorities, keys, limits, history or storage. A job goes to the next
 * worker that asks, and its result to the client. What it costs is what the kernel takes for the same packets on
 * the same connections: one read for each connection that has input, and one write for each that has output, in
 * each pass of the loop.
 *
 *   cc -O2 -Wall -Wextra -o bare_loop bare_loop.c
 *   bare_loop          prints its address as one line of JSON, and serves until it is ended
 */
#define _GNU_SOURCE /* accept4 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CAN_DO = 1, PRE_SLEEP = 4, NOOP = 6, SUBMIT_JOB = 7, JOB_CREATED = 8, GRAB_JOB = 9, NO_JOB = 10,
       JOB_ASSIGN = 11, WORK_COMPLETE = 13 };
enum { HEADER = 12, EVENTS = 512, READ_BYTES = 1 << 16, HANDLE_BYTES = 32 };

typedef struct { char *data; size_t used, room; } buffer;

typedef struct connection {
    int fd;
    int listed;   /* it is in `writers` */
    int blocked;  /* the kernel takes no more: wait until the peer has read */
    int asleep;
    int gone;     /* closed; freed at the end of the pass */
    size_t sent;  /* bytes of `out` that are written */
    buffer in, out;
    struct connection *next_writer;
    struct connection *before, *after; /* the ring of sleepers */
} connection;

typedef struct {
    connection *client; /* NULL: done, or the client is gone */
    int open;
    buffer body;        /* function \0 payload; kept for the next job in this place */
} job;

static int epoll;
static connection sleepers; /* the head of the ring; the one that sleeps longest is first */
static connection *writers, *closed;
static job *jobs;                      /* a ring; job number N is in place N & (places - 1) */
static uint64_t places = 1024;
static uint64_t oldest = 1;            /* the first job that is not done */
static uint64_t next_assigned = 1;     /* the first job that no worker has */
static uint64_t next_number = 1;

static void fail(const char *what) { perror(what); exit(1); }

static char *reserve(buffer *buffer, size_t more) {
    if (buffer->used + more > buffer->room) {
        buffer->room = (buffer->used + more) * 2;
        if (!(buffer->data = realloc(buffer->data, buffer->room))) fail("realloc");
    }
    return buffer->data + buffer->used;
}

static void append(buffer *buffer, const void *data, size_t bytes) {
    memcpy(reserve(buffer, bytes), data, bytes);
    buffer->used += bytes;
}

static job *place_of(uint64_t number) { return &jobs[number & (places - 1)]; }

/* --- output: collected in a pass, written at its end */

static void list(connection *peer) {
    if (peer->listed || peer->gone) return;
    peer->listed = 1;
    peer->next_writer = writers;
    writers = peer;
}

static void head(connection *peer, uint32_t type, size_t bytes) {
    char packet[HEADER] = "\0RES";
    uint32_t type_sent = htonl(type), bytes_sent = htonl((uint32_t)bytes);
    memcpy(packet + 4, &type_sent, 4);
    memcpy(packet + 8, &bytes_sent, 4);
    append(&peer->out, packet, HEADER);
    list(peer);
}

static void await(connection *peer, int writable) {
    struct epoll_event event = { EPOLLIN | (writable ? EPOLLOUT : 0), { .ptr = peer } };
    if (peer->blocked != writable && epoll_ctl(epoll, EPOLL_CTL_MOD, peer->fd, &event)) fail("epoll_ctl");
    peer->blocked = writable;
}

static void write_out(connection *peer) {
    while (peer->sent < peer->out.used) {
        ssize_t bytes = send(peer->fd, peer->out.data + peer->sent, peer->out.used - peer->sent, MSG_NOSIGNAL);
        if (bytes < 0 && errno == EINTR) continue;
        if (bytes < 0 && errno != EAGAIN) break; /* the peer is gone, which the next read tells */
        if (bytes < 0) { await(peer, 1); return; }
        peer->sent += (size_t)bytes;
    }
    peer->sent = peer->out.used = 0;
    await(peer, 0);
}

static void write_all(void) {
    while (writers) {
        connection *peer = writers;
        writers = peer->next_writer;
        peer->listed = 0;
        if (!peer->gone && !peer->blocked) write_out(peer);
    }
    while (closed) {
        connection *peer = closed;
        closed = peer->next_writer;
        free(peer->in.data);
        free(peer->out.data);
        free(peer);
    }
}

/* --- workers that sleep, and jobs */

static void wake(connection *worker) {
    worker->before->after = worker->after;
    worker->after->before = worker->before;
    worker->asleep = 0;
}

static void sleep_on(connection *worker) {
    if (worker->asleep) return;
    worker->asleep = 1;
    worker->after = &sleepers;
    worker->before = sleepers.before;
    sleepers.before->after = worker;
    sleepers.before = worker;
}

static void grow(void) {
    job *more = calloc(places * 2, sizeof *more);
    if (!more) fail("calloc");
    for (uint64_t number = oldest; number < next_number; number++)
        more[number & (places * 2 - 1)] = *place_of(number);
    free(jobs);
    jobs = more;
    places *= 2;
}

static int submit(connection *client, char *body, size_t bytes) {
    char *end = memchr(body, 0, bytes), *payload = end ? memchr(end + 1, 0, bytes - (size_t)(end + 1 - body)) : NULL;
    char handle[HANDLE_BYTES];
    if (!payload) return 0;
    if (next_number - oldest == places) grow();
    job *new = place_of(next_number);
    new->client = client;
    new->open = 1;
    new->body.used = 0;
    append(&new->body, body, (size_t)(end + 1 - body));
    append(&new->body, payload + 1, bytes - (size_t)(payload + 1 - body));
    int length = snprintf(handle, sizeof handle, "H:bare:%llu", (unsigned long long)next_number++);
    head(client, JOB_CREATED, (size_t)length);
    append(&client->out, handle, (size_t)length);
    if (sleepers.after != &sleepers) {
        connection *worker = sleepers.after;
        wake(worker);
        head(worker, NOOP, 0);
    }
    return 1;
}

static void assign(connection *worker) {
    char handle[HANDLE_BYTES];
    if (next_assigned == next_number) { head(worker, NO_JOB, 0); return; }
    job *next = place_of(next_assigned);
    int length = snprintf(handle, sizeof handle, "H:bare:%llu", (unsigned long long)next_assigned++);
    head(worker, JOB_ASSIGN, (size_t)length + 1 + next->body.used);
    append(&worker->out, handle, (size_t)length + 1);
    append(&worker->out, next->body.data, next->body.used);
}

static int complete(char *body, size_t bytes) {
    char *end = memchr(body, 0, bytes);
    if (!end || end - body < 8 || memcmp(body, "H:bare:", 7)) return 0;
    uint64_t number = strtoull(body + 7, NULL, 10);
    if (number < oldest || number >= next_assigned || !place_of(number)->open) return 0;
    job *done = place_of(number);
    if (done->client) {
        head(done->client, WORK_COMPLETE, bytes);
        append(&done->client->out, body, bytes);
    }
    done->client = NULL;
    done->open = 0;
    while (oldest < next_assigned && !place_of(oldest)->open) oldest++;
    return 1;
}

/* --- input */

static void hang_up(connection *peer) {
    if (peer->gone) return;
    if (peer->asleep) wake(peer);
    for (uint64_t number = oldest; number < next_number; number++)
        if (place_of(number)->client == peer) place_of(number)->client = NULL;
    close(peer->fd);
    peer->gone = 1;
    if (peer->listed) {
        connection **link = &writers;
        while (*link != peer) link = &(*link)->next_writer;
        *link = peer->next_writer;
    }
    peer->next_writer = closed;
    closed = peer;
}

static int obey(connection *peer, uint32_t type, char *body, size_t bytes) {
    switch (type) {
        case CAN_DO: return 1;
        case SUBMIT_JOB: return submit(peer, body, bytes);
        case GRAB_JOB: assign(peer); return 1;
        case WORK_COMPLETE: return complete(body, bytes);
        case PRE_SLEEP:
            if (next_assigned < next_number) head(peer, NOOP, 0);
            else sleep_on(peer);
            return 1;
        default: return 0;
    }
}

/* Returns 0 if the peer said something that this server does not know. */
static int read_packets(connection *peer) {
    size_t at = 0;
    if (peer->in.data[0] != 0) { /* a text command: the benchmark only asks whether the server answers */
        append(&peer->out, ".\n", 2);
        list(peer);
        peer->in.used = 0;
        return 1;
    }
    while (peer->in.used - at >= HEADER) {
        char *packet = peer->in.data + at;
        uint32_t type, bytes;
        memcpy(&type, packet + 4, 4);
        memcpy(&bytes, packet + 8, 4);
        type = ntohl(type);
        bytes = ntohl(bytes);
        if (memcmp(packet, "\0REQ", 4)) return 0;
        if (peer->in.used - at - HEADER < bytes) break;
        if (!obey(peer, type, packet + HEADER, bytes)) return 0;
        at += HEADER + (size_t)bytes;
    }
    memmove(peer->in.data, peer->in.data + at, peer->in.used - at);
    peer->in.used -= at;
    return 1;
}

static void read_in(connection *peer) {
    ssize_t bytes = recv(peer->fd, reserve(&peer->in, READ_BYTES), READ_BYTES, 0);
    if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (bytes > 0) {
        peer->in.used += (size_t)bytes;
        if (read_packets(peer)) return;
    }
    hang_up(peer);
}

static void greet(int listener) {
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK), one = 1;
    if (fd < 0) return;
    connection *peer = calloc(1, sizeof *peer);
    if (!peer) fail("calloc");
    peer->fd = fd;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    struct epoll_event event = { EPOLLIN, { .ptr = peer } };
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event)) fail("epoll_ctl");
}

int main(void) {
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t length = sizeof address;
    struct epoll_event events[EVENTS], listening = { EPOLLIN, { .ptr = NULL } };
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    epoll = epoll_create1(0);
    jobs = calloc(places, sizeof *jobs);
    sleepers.before = sleepers.after = &sleepers;
    if (listener < 0 || epoll < 0 || !jobs) fail("start");
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 4096)) fail("listen");
    if (getsockname(listener, (struct sockaddr *)&address, &length)) fail("getsockname");
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &listening)) fail("epoll_ctl");
    printf("{\"doors\": [{\"address\": \"127.0.0.1:%d\"}]}\n", ntohs(address.sin_port));
    fflush(stdout);
    for (;;) {
        int count = epoll_wait(epoll, events, EVENTS, -1);
        if (count < 0 && errno != EINTR) fail("epoll_wait");
        for (int index = 0; index < count; index++) {
            connection *peer = events[index].data.ptr;
            if (!peer) { greet(listener); continue; }
            if (!peer->gone && events[index].events & EPOLLOUT) write_out(peer);
            if (!peer->gone && events[index].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) read_in(peer);
        }
        write_all();
    }
}
