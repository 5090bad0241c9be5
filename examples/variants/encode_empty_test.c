#include <stdlib.h>
#include <string.h>
#include "store.h"

// Not assert: it does nothing with -c opt.
static void check(int ok) {
    if (!ok) abort();
}

int main(void) {
    static struct store s;
    uint8_t out[10];
    check(encode(&s, out, sizeof out) == 0);
    return 0;
}
