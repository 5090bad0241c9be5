#include <string.h>
#include "store.h"

#ifdef JOURNAL
static char last[32][18];
static int entries;
#endif

void journal(char what, const char *key) {
#ifdef JOURNAL
    char *line = last[entries++ % 32];
    line[0] = what;
    strncpy(line + 1, key, 16);
#else
    (void)what;
    (void)key;
#endif
}

int journalled(void) {
#ifdef JOURNAL
    return entries;
#else
    return 0;
#endif
}
