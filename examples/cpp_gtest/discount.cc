#include "discount.h"

#include <map>
#include <utility>

namespace shop {
namespace {

// On demand, since registrations run before main in no particular order.
std::map<std::string, Kind::Factory, std::less<>>& Registry() {
  static std::map<std::string, Kind::Factory, std::less<>> registry;
  return registry;
}

}  // namespace

Kind::Kind(std::string name, Factory factory) { Registry().emplace(std::move(name), factory); }

std::unique_ptr<Discount> Make(std::string_view kind, int argument) {
  const auto found = Registry().find(kind);
  return found == Registry().end() ? nullptr : found->second(argument);
}

std::vector<std::string> Kinds() {
  std::vector<std::string> names;
  for (const auto& [name, factory] : Registry()) names.push_back(name);
  return names;
}

}  // namespace shop
