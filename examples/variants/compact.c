#include "store.h"

// compact moves all entries to the front and returns how many it moved.
int compact(struct store *s) {
    int moved = 0;
#ifdef COMPACT
    int to = 0;
    for (int i = 0; i < KEYS; i++) {
        if (!s->entries[i].used) continue;
        if (i != to) {
            s->entries[to] = s->entries[i];
            s->entries[i].used = 0;
            moved++;
        }
        to++;
    }
#else
    (void)s;
#endif
    return moved;
}
