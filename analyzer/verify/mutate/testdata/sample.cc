// Something for every kind of edit of C++ to change.
#define LIMIT 10
#define TWICE(x) ((x) * 2 + LIMIT)
#define NAME "sample"

namespace std {
class type_info {
 public:
	virtual ~type_info();
	const char *name() const;
	bool operator==(const type_info &other) const;
};
enum class destroying_delete_token : unsigned char {};
}

extern "C" int report(const char *format, ...);
int seed();
int unsafe(int depth) noexcept(false);

namespace shapes {

enum class color : unsigned char { red, green = 5, blue };
enum corner { sharp, round = 3 };

struct counter {
	counter() { ++live; }
	counter(const counter &) { ++live; }
	~counter() { --live; }
	static int live;
};
int counter::live = 0;

struct point {
	int x = 1;
	int y{2};
	mutable unsigned hits : 3;
	unsigned flags : 5;
	constexpr int sum() const { return x + y; }
	bool operator==(const point &other) const { return x == other.x && y == other.y; }
	point operator+(const point &other) const { return point{x + other.x, y + other.y, 0, 0}; }
	point &operator+=(int by) {
		x += by;
		return *this;
	}
};

class shape {
 public:
	explicit shape(int sides, const char *label = "shape") : sides_(sides), label_(label) {}
	shape(const shape &) = default;
	virtual ~shape() { report("%s %d\n", label_, sides_); }
	virtual int area() const { return 0; }
	virtual shape *clone() const = 0;
	virtual const char *label() const { return label_; }
	int sides() const { return sides_; }
	friend int corners(const shape &s) { return s.sides_ * 2; }

 protected:
	int sides_ = 0;
	const char *label_;

 private:
	counter count_;
};

class square : public shape {
 public:
	square(int side) : shape(4, "square"), side_(side) {}
	int area() const override { return side_ * side_; }
	square *clone() const override { return new square(*this); }
	operator int() const { return side_; }

 private:
	int side_;
	point at_;
};

class tile final : public square {
 public:
	using square::square;
	tile() : square(3), paint_(color::green) {}
	~tile() override { hidden_ += 1; }
	int area() const final { return square::area() + static_cast<int>(paint_); }
	const char *label() const override { return "tile"; }

 private:
	color paint_;
	static int hidden_;
};
int tile::hidden_ = 4;

struct base {
	int id = 7;
	virtual int who() { return 1; }
	int plain() { return id; }
};
struct left : virtual base {
	int l = 8;
	int who() override { return 2; }
};
struct right : virtual base {
	int r = 9;
	virtual int other() { return 3; }
};
struct bottom : left, right {
	int b = 10;
	int other() override { return who() + id; }
	int plain(long) { return 11; }
};

struct failure {
	failure(int c) : code(c) {}
	int code;
	virtual const char *what() const { return "failure"; }
};
struct range_failure : failure {
	range_failure(int c) : failure(c) {}
	const char *what() const override { return "range"; }
};

struct mixin {
	int extra = 1;
};
struct mixed : mixin, protected counter {
	int own = 2;
};
struct more final : public mixed, private base {
	int last = 3;
};

}  // namespace shapes

namespace tools {

template <typename T>
concept small = sizeof(T) <= 4;

template <typename T>
struct traits {
	static constexpr int size = sizeof(T);
	static int rank(const T &) { return 1; }
};
template <>
struct traits<char> {
	static constexpr int size = 100;
	static int rank(const char &) { return 2; }
};
template <typename T>
struct traits<T *> {
	static constexpr int size = 200;
	static int rank(T *const &) { return 3; }
};

template <typename T, int N = 4>
class list {
 public:
	list() = default;
	void add(const T &value) {
		if (used_ < N)
			items_[used_++] = value;
	}
	T *begin() { return items_; }
	T *end() { return items_ + used_; }
	int used() const { return used_; }

 private:
	T items_[N] = {};
	int used_ = 0;
};

template <typename T>
T larger(T a, T b) {
	return a < b ? b : a;
}
template <small T>
int weight(T) {
	return 1;
}
template <typename T>
	requires(!small<T>)
int weight(T) {
	return 2;
}
template <typename... T>
int total(T... values) {
	return (0 + ... + values);
}

template <typename T>
int classify(T value) {
	if constexpr (sizeof(T) > 4)
		return 1;
	if constexpr (small<T>)
		return value;
	return 0;
}

template <typename T>
T &&moved(T &value) {
	return static_cast<T &&>(value);
}

template <typename T>
constexpr int limit = 5;

int pick(long) { return 1; }
int pick(const char *) { return 2; }

inline namespace current {
inline int version() { return 3; }
}

}  // namespace tools

namespace {
int start() { return seed() + 1; }
int first = start();
int second = first + 1;
struct registrar {
	registrar(int v) : value(v) { report("%d", value); }
	~registrar() { report("gone"); }
	int value;
};
registrar registered(second);
}  // namespace

using namespace tools;
using shapes::point;

const int table[] = {1, 2, LIMIT};
constexpr int power(int n) { return n == 0 ? 1 : 2 * power(n - 1); }
static int cells[power(3)];
thread_local int visits = seed();
inline int shared = 12;
const char *const title = NAME;

int areas(const shapes::shape &s, int scale = 2) {
	int sum = 0;
	for (int i = 0; i < scale; i++) {
		sum += s.area() * TWICE(i);
		if (sum > 1000)
			break;
	}
	return sum + corners(s);
}

int hierarchy(shapes::base *b) {
	if (auto *d = dynamic_cast<shapes::bottom *>(b))
		return d->plain(1) + d->left::id;
	if (dynamic_cast<shapes::right *>(b) != nullptr)
		return 2;
	shapes::bottom bottom;
	shapes::base &ref = bottom;
	return ref.who() + ref.plain() + bottom.other() + (typeid(*b) == typeid(shapes::left));
}

int guarded(int depth) {
	shapes::counter local;
	try {
		if (depth > 3)
			throw shapes::range_failure(depth);
		return unsafe(depth);
	} catch (const shapes::range_failure &f) {
		return f.code;
	} catch (shapes::failure f) {
		return report(f.what());
	} catch (...) {
		throw;
	}
}

int lambdas(int a, int b) {
	int calls = 0;
	auto add = [a, &calls](int x) {
		calls++;
		return a + x;
	};
	auto all = [=]() mutable { return a + ++b; };
	auto generic = [&](auto x) { return larger<int>(x, b); };
	return add(1) + all() + generic(2) + calls;
}

int loops() {
	list<point> points;
	points.add(point{3, 4, 1, 1});
	points.add(point{5, 6, 1, 1} + point());
	int sum = 0;
	for (const auto &p : points)
		sum += p.sum();
	for (point p : points) {
		p += 2;
		auto [x, y, h, f] = p;
		sum += x - y + h;
	}
	while (sum > 100) {
		sum -= 7;
		if (sum == 50)
			continue;
	}
	return sum + points.used();
}

int templates(char c, int *p) {
	list<char, 2> letters;
	letters.add(c);
	static int uses = seed();
	if constexpr (limit<int> > 3)
		uses++;
	return traits<char>::rank(c) + traits<int *>::rank(p) + traits<long>::size + weight(1.5) + weight(c) + total(1, 2, 3) + pick(uses) + version() + letters.used();
}

int objects(shapes::color paint) {
	shapes::tile tile;
	shapes::tile sized(5);
	shapes::shape *copy = tile.clone();
	int result = areas(tile) + areas(*copy, 3) + sized + corners(sized);
	delete copy;
	switch (paint) {
	case shapes::color::red:
		result += shapes::round;
		break;
	case shapes::color::green:
		result = cells[1] + table[2];
	default:
		result--;
	}
	point a, b = a;
	shapes::more more;
	list<int> numbers;
	list<long, 8> wide;
	numbers.add(larger<short>(1, 2) + traits<int>::size + classify<int>(more.last) + classify<double>(1.5));
	wide.add(moved(result));
	return a == b ? result + numbers.used() + wide.used() : visits + shared + registered.value + first + (title[0] == 's') + (int)sizeof(shapes::bottom);
}
