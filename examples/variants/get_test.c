#include <stdlib.h>
#include <string.h>
#include "store.h"

// Not assert: it does nothing with -c opt.
static void check(int ok) {
    if (!ok) abort();
}

int main(void) {
    static struct store s;
    char v[VALUE];
    put(&s, "key", "value", 5);
    check(get(&s, "key", v, sizeof v) == 5 && memcmp(v, "value", 5) == 0);
    check(get(&s, "none", v, sizeof v) == -1);
    return 0;
}
