/* A lower bound for any dwork hub: what libzmq itself costs. A ROUTER that has
 * its answers ready and keeps nothing.
 *
 *   cc -O2 -o bare_router bare_router.c -lzmq
 *   bare_router TASKS_A_STEAL
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

int main(int argc, char **argv) {
    static char answer[1 << 16], body[1 << 16];
    char identity[256], endpoint[64];
    size_t length = sizeof endpoint;
    int tasks = argc > 1 ? atoi(argv[1]) : 1, size = 2;
    memcpy(answer, "\x08\x03", 2);
    for (int k = 0; k < tasks; k++) {
        char task[16];
        int n = snprintf(task, sizeof task, "\x0a\x06t%05d\x12\x01h", k);
        answer[size++] = 0x12; answer[size++] = n;
        memcpy(answer + size, task, n);
        size += n;
    }
    void *context = zmq_ctx_new(), *router = zmq_socket(context, ZMQ_ROUTER);
    if (zmq_bind(router, "tcp://127.0.0.1:*")) return 1;
    zmq_getsockopt(router, ZMQ_LAST_ENDPOINT, endpoint, &length);
    printf("{\"doors\": [{\"address\": \"%s\"}]}\n", endpoint + 6);
    fflush(stdout);
    for (;;) {
        int n = zmq_recv(router, identity, sizeof identity, 0);
        if (n < 0) return 0;
        zmq_recv(router, body, sizeof body, 0);
        zmq_recv(router, body, sizeof body, 0);
        zmq_send(router, identity, n, ZMQ_SNDMORE);
        zmq_send(router, "", 0, ZMQ_SNDMORE);
        if (body[1] == 1) zmq_send(router, answer, size, 0);
        else zmq_send(router, "\x08\x06", 2, 0);
    }
}
