#include <stdlib.h>
#include <string.h>
#include "store.h"

// Not assert: it does nothing with -c opt.
static void check(int ok) {
    if (!ok) abort();
}

int main(void) {
    static struct store s;
    check(put(&s, "key", "value", 5) >= 0 && s.used == 1);
    check(put(&s, "key", "other", 5) >= 0 && s.used == 1);
    return 0;
}
