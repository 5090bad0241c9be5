#include "store.h"

// FNV-1a.
uint32_t hash(const void *data, size_t length) {
    const uint8_t *p = data;
    uint32_t h = 2166136261u;
    while (length--) h = (h ^ *p++) * 16777619u;
    return h;
}

uint32_t checksum(const void *data, size_t length) {
#ifdef CHECKSUM
    // CRC-32.
    const uint8_t *p = data;
    uint32_t c = ~0u;
    while (length--) {
        c ^= *p++;
        for (int i = 0; i < 8; i++) c = c >> 1 ^ (c & 1 ? 0xedb88320u : 0);
    }
    return ~c;
#else
    return hash(data, length);
#endif
}
