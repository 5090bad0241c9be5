// A fork server: preloaded into a dynamically linked tool, it lets the tool load,
// and then forks a copy for each call instead of running main itself. Calls come from
// call.c, through the socket that SERVE_SOCKET names.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { JOBS = 4096, FAILED = 125 };

extern char **environ;
typedef int main_t(int, char **, char **);
static main_t *tool;

// calls answers each call with the wait status of its child, until stdin is closed. It
// returns in the children only, with the socket of the call.
static int calls(int s) {
    static struct { pid_t pid; int conn; } jobs[JOBS];
    int n = 0, conn;
    sigset_t child, before;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, &before);
    struct pollfd p[] = {{.fd = s, .events = POLLIN}, {.fd = 0, .events = POLLIN}, {.fd = signalfd(-1, &child, SFD_CLOEXEC), .events = POLLIN}};
    for (;;) {
        if (poll(p, 3, -1) < 0) continue;
        if (p[1].revents) _exit(0);
        if (p[2].revents) {
            struct signalfd_siginfo info;
            pid_t pid;
            int status;
            if (read(p[2].fd, &info, sizeof info) < 0) _exit(FAILED);
            while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
                for (int i = 0; i < n; i++)
                    if (jobs[i].pid == pid) {
                        send(jobs[i].conn, &status, sizeof status, MSG_NOSIGNAL);
                        close(jobs[i].conn);
                        jobs[i] = jobs[--n];
                        break;
                    }
        }
        if (!p[0].revents || n == JOBS || (conn = accept4(s, 0, 0, SOCK_CLOEXEC)) < 0) continue;
        pid_t pid = fork();
        if (pid == 0) break;
        if (pid < 0) {
            close(conn);
            continue;
        }
        jobs[n].pid = pid;
        jobs[n++].conn = conn;
    }
    for (int i = 0; i < n; i++) close(jobs[i].conn);
    close(p[2].fd);
    close(s);
    sigprocmask(SIG_SETMASK, &before, 0);
    return conn;
}

// become makes the process what the caller would have been, and returns its words,
// then those of its environment.
static char **become(int conn, const char *self, int *argc) {
    static char text[1 << 20], name[PATH_MAX];
    static char *words[1 << 14];
    int fds[3];
    char control[CMSG_SPACE(sizeof fds)];
    struct iovec v = {text, sizeof text};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    ssize_t n = recvmsg(conn, &m, 0);
    struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&m) : 0;
    if (!c || c->cmsg_len != CMSG_LEN(sizeof fds)) _exit(FAILED);
    memcpy(fds, CMSG_DATA(c), sizeof fds);
    for (int i = 0; i < 3; i++) {
        dup2(fds[i], i);
        close(fds[i]);
    }
    close(conn);
    char *at = text, *end = text + n;
    *argc = atoi(at);
    at += strlen(at) + 1;
    if (chdir(at)) _exit(FAILED);
    int k = 0;
    for (at += strlen(at) + 1; at < end && k < (1 << 14) - 2; at += strlen(at) + 1) {
        if (k == *argc) words[k++] = 0;
        words[k++] = at;
    }
    if (at < end) _exit(FAILED);
    // As if it were called where the tool is.
    const char *base = strrchr(words[0], '/');
    snprintf(name, sizeof name, "%.*s/%s", (int)(strrchr(self, '/') - self), self, base ? base + 1 : words[0]);
    words[0] = name;
    return words;
}

static int serve(int argc, char **argv, char **env) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    char *path = getenv("SERVE_SOCKET");
    if (!path) return tool(argc, argv, env);
    strncpy(a.sun_path, path, sizeof a.sun_path - 1);
    int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (s < 0 || bind(s, (struct sockaddr *)&a, sizeof a) || listen(s, JOBS) || write(1, "\n", 1) != 1) return FAILED;
    argv = become(calls(s), argv[0], &argc);
    environ = argv + argc + 1;
    return tool(argc, argv, environ);
}

int __libc_start_main(main_t *m, int argc, char **argv, void (*init)(void), void (*fini)(void), void (*rtld)(void), void *stack) {
    __typeof__(__libc_start_main) *next = (__typeof__(next))dlsym(RTLD_NEXT, "__libc_start_main");
    tool = m;
    return next(serve, argc, argv, init, fini, rtld, stack);
}
