#include <stdlib.h>
#include <string.h>
#include "store.h"

// Not assert: it does nothing with -c opt.
static void check(int ok) {
    if (!ok) abort();
}

int main(void) {
    int n = 0;
    count(&n);
    check(n == 0 || n == 1);
    return 0;
}
