/* A socket of the system's libzmq, moved by a test.
 *
 *   zmq_puppet DEALER|REQ|ROUTER|SUB|PUSH|PUB tcp://HOST:PORT [IDENTITY]
 *
 * A line on stdin is a message: its frames in hexadecimal, with spaces between; a dot is an empty frame. A message that
 * comes in is a line in the same form, after "> ". It says "> ready" first, and ends with its stdin.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

static int kind_of(const char *name) {
    static const char *names[] = { "PAIR", "PUB", "SUB", "REQ", "REP", "DEALER", "ROUTER", "PULL", "PUSH" };
    for (int kind = 0; kind < 9; kind++)
        if (!strcmp(name, names[kind])) return kind;
    exit(2);
}

static void say(void *socket, char *line) {
    static unsigned char body[1 << 16];
    for (char *word = strtok(line, " \n"); word;) {
        char *next = strtok(NULL, " \n");
        size_t size = 0;
        for (const char *at = word; *at != '.' && at[0] && at[1]; at += 2) sscanf(at, "%2hhx", &body[size++]);
        zmq_send(socket, body, size, next ? ZMQ_SNDMORE : 0);
        word = next;
    }
}

static void hear(void *socket) {
    int more;
    size_t size = sizeof more;
    printf(">");
    do {
        zmq_msg_t part;
        zmq_msg_init(&part);
        zmq_msg_recv(&part, socket, 0);
        const unsigned char *data = zmq_msg_data(&part);
        printf(zmq_msg_size(&part) ? " " : " .");
        for (size_t at = 0; at < zmq_msg_size(&part); at++) printf("%02x", data[at]);
        zmq_msg_close(&part);
        zmq_getsockopt(socket, ZMQ_RCVMORE, &more, &size);
    } while (more);
    printf("\n");
    fflush(stdout);
}

int main(int argc, char **argv) {
    static char line[1 << 17];
    if (argc < 3) return 2;
    int linger = 0;
    void *context = zmq_ctx_new(), *socket = zmq_socket(context, kind_of(argv[1]));
    zmq_setsockopt(socket, ZMQ_LINGER, &linger, sizeof linger);
    if (argc > 3) zmq_setsockopt(socket, ZMQ_ROUTING_ID, argv[3], strlen(argv[3]));
    if (!strcmp(argv[1], "SUB")) zmq_setsockopt(socket, ZMQ_SUBSCRIBE, "", 0);
    if (zmq_connect(socket, argv[2])) return 1;
    setvbuf(stdin, NULL, _IONBF, 0);
    puts("> ready");
    fflush(stdout);
    for (;;) {
        zmq_pollitem_t items[] = { { NULL, 0, ZMQ_POLLIN, 0 }, { socket, 0, ZMQ_POLLIN, 0 } };
        if (zmq_poll(items, 2, -1) < 0) return 1;
        if (items[1].revents) hear(socket);
        if (items[0].revents) {
            if (!fgets(line, sizeof line, stdin)) break;
            say(socket, line);
        }
    }
    zmq_close(socket);
    zmq_ctx_term(context);
    return 0;
}
