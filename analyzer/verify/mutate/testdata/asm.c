// What isn't plain C.
static int counter;

int count(void) {
	return ++counter;
}

int barrier(int v) {
	__asm__ volatile("nop" : "+r"(v));
	return v;
}
