// Something for every kind of edit to change.
#include <stdarg.h>
#include <stddef.h>

#define LIMIT 10
#define TWICE(x) ((x) * 2 + LIMIT)

typedef unsigned int number;

enum color { RED, GREEN = 5, BLUE };

struct point {
	int x;
	short y;
	unsigned a : 3;
	unsigned b : 5;
	struct point *next;
	char name[8];
};

union either {
	int i;
	float f;
};

int counter = 3;
static double table[4] = {1.5, 2.5, 3.5};
const char *words[] = {"one", "two", "three"};
static int hidden;

int helper(int, int);
void report(const char *format, ...) __attribute__((format(printf, 1, 2)));

static inline number square(number v) {
	return v * v;
}

static int fail(void) {
	hidden++;
	return -1;
}

static int retry(void) {
	return hidden ? fail() : 0;
}

int helper(int a, int b) {
	register int r = a;
	if (a > b && b != 0) {
		r = a - b;
	} else {
		r += b << 2;
	}
	return (char)r;
}

int walk(struct point *p, volatile int *flag, const int *q) {
	int sum = 0;
	int steps = 1;
	unsigned mask = ~7u;
	for (int i = 0; i < LIMIT; i++) {
		if (p == NULL)
			break;
		if (!*flag)
			continue;
		sum += p->x + p->y - p->a;
		p = p->next;
	}
again:
	while (steps < 5) {
		steps++;
		sum = helper(sum, steps);
	}
	switch (sum) {
	case 1:
		report("%d\n", sum);
		break;
	case 2:
		sum = fail() + retry();
	case RED + 100:
		goto done;
	default:
		sum--;
	}
	if (sum > 1000) {
		sum = sum & mask;
		goto again;
	}
done:
	return fail() + retry() + sum + (int)sizeof(struct point) + 'c' + TWICE(counter) + (int)table[1] + (int)square(3) + q[0];
}

__attribute__((noinline)) int twice(int x) { return 2 * x; }
__attribute__((noinline)) int thrice(int x) { return 3 * x; }
int twice_and_thrice(int x) { return twice(x) + thrice(x + 1); }
