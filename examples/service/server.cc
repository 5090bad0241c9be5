// The service: HTTP/1.0 on a port of 127.0.0.1 that it chooses, and prints. It ends when its standard input does.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <sstream>
#include <string>

#include "handlers.h"

static void Answer(int connection) {
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = read(connection, buffer, sizeof buffer)) > 0;) text.append(buffer, n);
  std::istringstream in(text);
  Request request;
  in >> request.method >> request.path;
  size_t body = text.find("\r\n\r\n");
  if (body != std::string::npos) request.body = text.substr(body + 4);
  Response response = Handle(request);
  std::string out = "HTTP/1.0 " + std::to_string(response.status) + " -\r\n\r\n" + response.body;
  if (write(connection, out.data(), out.size()) < 0) perror("write");
}

int main() {
  int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (bind(listener, reinterpret_cast<sockaddr*>(&address), size) || listen(listener, 16) ||
      getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size)) {
    perror("listen");
    return 1;
  }
  printf("%d\n", ntohs(address.sin_port));
  fflush(stdout);
  pollfd ready[] = {{listener, POLLIN, 0}, {0, POLLIN, 0}};
  while (poll(ready, 2, -1) >= 0 && !ready[1].revents) {
    int connection = accept(listener, nullptr, nullptr);
    if (connection < 0) continue;
    Answer(connection);
    close(connection);
  }
  return 0;
}
