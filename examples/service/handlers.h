// A key-value store behind HTTP.
#pragma once

#include <string>

struct Request {
  std::string method, path, body;
};

struct Response {
  int status;
  std::string body;
};

// Handle answers a request by the first route that fits.
Response Handle(const Request& request);
