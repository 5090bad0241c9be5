#include <stdlib.h>
#include <string.h>
#include "store.h"

// Not assert: it does nothing with -c opt.
static void check(int ok) {
    if (!ok) abort();
}

int main(void) {
    check(checksum("abc", 3) != checksum("abd", 3));
    return 0;
}
