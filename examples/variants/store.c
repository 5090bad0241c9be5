#include <string.h>
#include "store.h"

static int slot(const struct store *s, const char *key) {
    uint32_t start = hash(key, strlen(key)) % KEYS;
    for (int i = 0; i < KEYS; i++) {
        int n = (int)((start + (uint32_t)i) % KEYS);
        if (s->entries[n].used && strcmp(s->entries[n].key, key) == 0) return n;
    }
    return -1;
}

int put(struct store *s, const char *key, const void *value, size_t length) {
#ifdef LIMITS
    if (strlen(key) > 8) return -1;
#endif
    if (strlen(key) >= sizeof s->entries[0].key || length > VALUE) return -1;
    int n = slot(s, key);
    for (int i = 0; n < 0 && i < KEYS; i++) {
        int k = (int)((hash(key, strlen(key)) + (uint32_t)i) % KEYS);
        if (!s->entries[k].used) n = k;
    }
    if (n < 0) return -1;
    struct entry *e = &s->entries[n];
    if (!e->used) s->used++;
    strcpy(e->key, key);
    memcpy(e->value, value, length);
    e->length = (uint8_t)length;
    e->sum = checksum(value, length);
    e->used = 1;
    journal('p', key);
    count(&stats.puts);
    return n;
}

int get(const struct store *s, const char *key, void *value, size_t room) {
    int n = slot(s, key);
    count(&stats.gets);
    if (n < 0 || s->entries[n].length > room) return -1;
#ifdef VERIFY
    if (checksum(s->entries[n].value, s->entries[n].length) != s->entries[n].sum) return -2;
#endif
    memcpy(value, s->entries[n].value, s->entries[n].length);
    return s->entries[n].length;
}

int drop(struct store *s, const char *key) {
    int n = slot(s, key);
    if (n < 0) return -1;
    s->entries[n].used = 0;
    s->used--;
    journal('d', key);
    count(&stats.drops);
    return 0;
}
