#include <stdlib.h>
#include <string.h>
#include "store.h"

// Not assert: it does nothing with -c opt.
static void check(int ok) {
    if (!ok) abort();
}

int main(void) {
    check(hash("", 0) == 2166136261u);
    check(hash("a", 1) != hash("b", 1));
    return 0;
}
