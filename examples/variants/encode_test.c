#include <stdlib.h>
#include <string.h>
#include "store.h"

// Not assert: it does nothing with -c opt.
static void check(int ok) {
    if (!ok) abort();
}

int main(void) {
    static struct store s;
    uint8_t out[100];
    strcpy(s.entries[3].key, "k");
    s.entries[3].length = 4;
    s.entries[3].used = 1;
    check(encode(&s, out, sizeof out) == 7);
    return 0;
}
