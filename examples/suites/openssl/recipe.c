/* Runs a recipe of OpenSSL's tests as `make test` does: build.pl has made a test of it. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    char top[4096];
    if (argc != 2 || !getcwd(top, sizeof top)) return 2;
    setenv("SRCTOP", top, 1);
    setenv("BLDTOP", top, 1);
    setenv("RESULT_D", getenv("TEST_TMPDIR"), 1);
    setenv("PERL", "perl", 1);
    setenv("PERL5LIB", "util/perl:external/perl", 1);
    setenv("OPENSSL_CONF", "apps/openssl.cnf", 1);
    execlp("perl", "perl", argv[1], (char *)0);
    perror("perl");
    return 2;
}
