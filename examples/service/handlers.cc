#include "handlers.h"

#include <map>
#include <string>

namespace {

std::map<std::string, std::string>& Store() {
  static std::map<std::string, std::string> store;
  return store;
}

std::string Key(const Request& request) { return request.path.substr(request.path.rfind('/') + 1); }

Response Health(const Request&) { return {200, "ok"}; }

Response Get(const Request& request) {
  auto found = Store().find(Key(request));
  if (found == Store().end()) return {404, "no such key"};
  return {200, found->second};
}

Response Put(const Request& request) {
  Store()[Key(request)] = request.body;
  return {201, ""};
}

Response Delete(const Request& request) {
  return Store().erase(Key(request)) ? Response{204, ""} : Response{404, "no such key"};
}

Response List(const Request&) {
  std::string keys;
  for (const auto& entry : Store()) keys += entry.first + "\n";
  return {200, keys};
}

Response Count(const Request&) { return {200, std::to_string(Store().size())}; }

int Number(const std::string& text) { return text.empty() ? 0 : std::stoi(text); }

Response Increment(const Request& request) {
  std::string& value = Store()[Key(request)];
  value = std::to_string(Number(value) + Number(request.body));
  return {200, value};
}

const char kSeparator[] = ",";

Response Append(const Request& request) {
  std::string& value = Store()[Key(request)];
  if (!value.empty()) value += kSeparator;
  value += request.body;
  return {200, value};
}

struct Route {
  const char* method;
  const char* prefix;
  Response (*handler)(const Request&);
};

const Route kRoutes[] = {
    {"GET", "/health", Health},    {"GET", "/keys", List},           {"GET", "/count", Count},
    {"GET", "/key/", Get},         {"PUT", "/key/", Put},            {"DELETE", "/key/", Delete},
    {"POST", "/increment/", Increment}, {"POST", "/append/", Append},
};

}  // namespace

Response Handle(const Request& request) {
  for (const Route& route : kRoutes)
    if (request.method == route.method && request.path.rfind(route.prefix, 0) == 0) return route.handler(request);
  return {404, "no such route"};
}
