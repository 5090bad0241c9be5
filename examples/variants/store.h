// A store of keys and values in memory.
#ifndef STORE_H
#define STORE_H
#include <stddef.h>
#include <stdint.h>

enum { KEYS = 64, VALUE = 32 };

struct entry {
    char key[16];
    uint8_t value[VALUE];
    uint8_t length;
    uint32_t sum;
    int used;
};

struct store {
    struct entry entries[KEYS];
    int used;
};

// hash.c
uint32_t hash(const void *data, size_t length);
uint32_t checksum(const void *data, size_t length);
// store.c
int put(struct store *s, const char *key, const void *value, size_t length);
int get(const struct store *s, const char *key, void *value, size_t room);
int drop(struct store *s, const char *key);
// compact.c
int compact(struct store *s);
// journal.c
void journal(char what, const char *key);
int journalled(void);
// stats.c
struct stats { int puts, gets, drops; };
extern struct stats stats;
void count(int *what);
// encode.c
size_t encode(const struct store *s, uint8_t *out, size_t room);
size_t hex(const uint8_t *in, size_t length, char *out, size_t room);
#endif
