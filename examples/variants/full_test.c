#include <stdlib.h>
#include <string.h>
#include "store.h"

// Not assert: it does nothing with -c opt.
static void check(int ok) {
    if (!ok) abort();
}

int main(void) {
    static struct store s;
    char key[2] = {0};
    for (int i = 0; i < KEYS; i++) {
        key[0] = (char)(48 + i);
        check(put(&s, key, "v", 1) >= 0);
    }
    check(put(&s, "more", "v", 1) == -1);
    return 0;
}
