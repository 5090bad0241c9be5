/* A client for tests of a service that is traced (docs/how-to/select-service-tests.md): before a test, tasting_interval("start", NAME), and
 * behind it, tasting_interval("stop", NAME). Services are those of $TASTING_INTERVALS, addresses with commas between
 * them: unix:PATH or HOST:PORT. Without that variable nothing is said, and all is well.
 *
 * Returns 0, or -1 if a service can't be reached or refuses: then what it says is in *why, if that isn't
 * NULL, up to 255 bytes. Needs POSIX. */
#ifndef TASTING_INTERVAL_H
#define TASTING_INTERVAL_H

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int tasting_connect(char *address) {
    if (strncmp(address, "unix:", 5) == 0) {
        struct sockaddr_un to;
        int s;
        memset(&to, 0, sizeof to);
        to.sun_family = AF_UNIX;
        if (strlen(address + 5) >= sizeof to.sun_path)
            return -1;
        strcpy(to.sun_path, address + 5);
        s = socket(AF_UNIX, SOCK_STREAM, 0);
        if (s >= 0 && connect(s, (struct sockaddr *)&to, sizeof to) != 0) {
            close(s);
            s = -1;
        }
        return s;
    } else {
        struct addrinfo want, *all, *a;
        char *port = strrchr(address, ':');
        int s = -1;
        if (!port)
            return -1;
        *port++ = 0;
        memset(&want, 0, sizeof want);
        want.ai_socktype = SOCK_STREAM;
        if (getaddrinfo(address, port, &want, &all) != 0)
            return -1;
        for (a = all; a && s < 0; a = a->ai_next) {
            s = socket(a->ai_family, a->ai_socktype, a->ai_protocol);
            if (s >= 0 && connect(s, a->ai_addr, a->ai_addrlen) != 0) {
                close(s);
                s = -1;
            }
        }
        freeaddrinfo(all);
        return s;
    }
}

static int tasting_interval(const char *word, const char *name, char why[256]) {
    const char *list = getenv("TASTING_INTERVALS");
    int failed = 0;
    while (list && *list) {
        size_t n = strcspn(list, ",");
        char address[512], answer[256] = "it can't be reached", line[4096];
        int length = snprintf(line, sizeof line, "%s %s\n", word, name), s = -1;
        if (n > 0 && n < sizeof address && length > 0 && length < (int)sizeof line) {
            memcpy(address, list, n);
            address[n] = 0;
            s = tasting_connect(address);
        }
        if (s >= 0) {
            size_t have = 0;
            ssize_t got = send(s, line, length, MSG_NOSIGNAL);
            while (got > 0 && have < sizeof answer - 1 && !memchr(answer, '\n', have)) {
                got = read(s, answer + have, sizeof answer - 1 - have);
                if (got > 0)
                    have += got;
            }
            answer[have] = 0;
            answer[strcspn(answer, "\n")] = 0;
            close(s);
        }
        if (n > 0 && strcmp(answer, "ok") != 0) {
            failed = -1;
            if (why)
                strcpy(why, answer);
        }
        list += n + (list[n] == ',');
    }
    return failed;
}

#endif
