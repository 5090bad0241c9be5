#include <stdlib.h>
#include <string.h>
#include "store.h"

// Not assert: it does nothing with -c opt.
static void check(int ok) {
    if (!ok) abort();
}

int main(void) {
    char out[9];
    check(hex((const uint8_t *)"\x12\xab", 2, out, sizeof out) == 4 && strcmp(out, "12ab") == 0);
    return 0;
}
