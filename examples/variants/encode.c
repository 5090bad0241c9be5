#include <string.h>
#include "store.h"

size_t hex(const uint8_t *in, size_t length, char *out, size_t room) {
    static const char digits[] = "0123456789abcdef";
    if (room < 2 * length + 1) return 0;
    for (size_t i = 0; i < length; i++) {
        *out++ = digits[in[i] >> 4];
        *out++ = digits[in[i] & 15];
    }
    *out = 0;
    return 2 * length;
}

size_t encode(const struct store *s, uint8_t *out, size_t room) {
    size_t n = 0;
    for (int i = 0; i < KEYS; i++) {
        const struct entry *e = &s->entries[i];
        size_t need = strlen(e->key) + 2u + e->length;
        if (!e->used || n + need > room) continue;
        strcpy((char *)out + n, e->key);
        n += strlen(e->key) + 1;
        out[n++] = e->length;
        memcpy(out + n, e->value, e->length);
        n += e->length;
    }
    return n;
}
