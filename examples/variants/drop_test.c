#include <stdlib.h>
#include <string.h>
#include "store.h"

// Not assert: it does nothing with -c opt.
static void check(int ok) {
    if (!ok) abort();
}

int main(void) {
    static struct store s;
    put(&s, "key", "value", 5);
    check(drop(&s, "key") == 0 && drop(&s, "key") == -1 && s.used == 0);
    return 0;
}
