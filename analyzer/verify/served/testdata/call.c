// What stands for a tool in PATH: it has the server (serve.c) whose socket is beside it
// do the call, with its own arguments, environment, directory and standard files.
#define _GNU_SOURCE
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

// Package tu takes it for what it stands for.
__attribute__((used)) static const char driver[] = "Valid tools include '-cc1'";

static int failed(const char *what) {
    perror(what);
    return 125;
}

int main(int argc, char **argv, char **env) {
    static char text[1 << 18];
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    ssize_t n = readlink("/proc/self/exe", a.sun_path, sizeof a.sun_path - 6);
    if (n < 0) return failed("/proc/self/exe");
    strcpy(a.sun_path + n, ".sock");
    int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), size = 2 * sizeof text;
    if (s < 0 || connect(s, (struct sockaddr *)&a, sizeof a)) return failed(a.sun_path);
    setsockopt(s, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    char *at = text + sprintf(text, "%d", argc) + 1, *end = text + sizeof text;
    if (!getcwd(at, PATH_MAX)) return failed("the working directory");
    at += strlen(at) + 1;
    for (int k = 0; k < 2; k++)
        for (char **w = k ? env : argv; *w; w++) {
            size_t l = strlen(*w) + 1;
            if (l > (size_t)(end - at)) return fputs("too many arguments\n", stderr), 125;
            memcpy(at, *w, l);
            at += l;
        }
    int fds[] = {0, 1, 2}, status;
    char control[CMSG_SPACE(sizeof fds)] = {0};
    struct iovec v = {text, at - text};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof fds);
    memcpy(CMSG_DATA(c), fds, sizeof fds);
    if (sendmsg(s, &m, 0) < 0) return failed("sendmsg");
    if (read(s, &status, sizeof status) != sizeof status || !WIFEXITED(status)) raise(SIGKILL);
    return WEXITSTATUS(status);
}
