#include "money.h"

#include <cstdio>
#include <ostream>

namespace shop {

BadAmount::BadAmount(std::string_view text)
    : std::invalid_argument("no amount of money: " + std::string(text)) {}

Money Parse(std::string_view text) {
  const bool negative = text.starts_with('-');
  std::string_view digits = negative ? text.substr(1) : text;
  long cents = 0;
  int behind = -1;  // digits behind the point, -1 before it
  for (char c : digits) {
    if (c == '.' && behind < 0) {
      behind = 0;
      continue;
    }
    if (c < '0' || c > '9' || behind == 2) throw BadAmount(text);
    cents = cents * 10 + (c - '0');
    if (behind >= 0) ++behind;
  }
  if (digits.empty() || behind == 0 || digits.front() == '.') throw BadAmount(text);
  for (int n = behind < 0 ? 0 : behind; n < 2; ++n) cents *= 10;
  return Money(negative ? -cents : cents);
}

std::string Format(Money money) {
  const long cents = money.cents() < 0 ? -money.cents() : money.cents();
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%s%ld.%02ld", money.cents() < 0 ? "-" : "", cents / 100, cents % 100);
  return buffer;
}

std::ostream& operator<<(std::ostream& out, Money money) { return out << Format(money); }

}  // namespace shop
