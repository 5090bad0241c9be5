#include <stdlib.h>
#include <string.h>
#include "store.h"

// Not assert: it does nothing with -c opt.
static void check(int ok) {
    if (!ok) abort();
}

int main(void) {
    int before = journalled();
    journal(120, "key");
    check(journalled() == before || journalled() == before + 1);
    return 0;
}
