// The tests of the service: client PORT NAME runs one of them.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

static int port, failures;

// Ask returns status and body of an answer.
static std::string Ask(const std::string& method, const std::string& path, const std::string& body = "") {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int s = socket(AF_INET, SOCK_STREAM, 0);
  if (connect(s, reinterpret_cast<sockaddr*>(&address), sizeof address)) {
    perror("connect");
    exit(2);
  }
  std::string text = method + " " + path + " HTTP/1.0\r\n\r\n" + body;
  if (write(s, text.data(), text.size()) < 0 || shutdown(s, SHUT_WR)) exit(2);
  std::string answer;
  char buffer[4096];
  for (ssize_t n; (n = read(s, buffer, sizeof buffer)) > 0;) answer.append(buffer, n);
  close(s);
  if (answer.size() < 12) return answer;
  size_t at = answer.find("\r\n\r\n");
  return answer.substr(9, 3) + " " + (at == std::string::npos ? "" : answer.substr(at + 4));
}

static void Want(const std::string& got, const std::string& want) {
  if (got == want) return;
  printf("got \"%s\", want \"%s\"\n", got.c_str(), want.c_str());
  failures++;
}

static void TestHealth() { Want(Ask("GET", "/health"), "200 ok"); }
static void TestMissing() { Want(Ask("GET", "/key/missing"), "404 no such key"); }
static void TestPut() {
  Want(Ask("PUT", "/key/put", "1"), "201 ");
  Want(Ask("GET", "/key/put"), "200 1");
}
static void TestDelete() {
  Ask("PUT", "/key/delete", "1");
  Want(Ask("DELETE", "/key/delete"), "204 ");
  Want(Ask("DELETE", "/key/delete"), "404 no such key");
}
static void TestList() {
  Ask("PUT", "/key/list", "1");
  if (Ask("GET", "/keys").find("list\n") == std::string::npos) failures++;
}
static void TestCount() {
  if (atoi(Ask("GET", "/count").c_str() + 4) < 0) failures++;
}
static void TestIncrement() {
  Want(Ask("POST", "/increment/n", "2"), "200 2");
  Want(Ask("POST", "/increment/n", "3"), "200 5");
  Ask("PUT", "/key/n", "");
}
static void TestAppend() {
  Want(Ask("POST", "/append/l", "a"), "200 a");
  Want(Ask("POST", "/append/l", "b"), "200 a,b");
  Ask("PUT", "/key/l", "");
}

static const struct {
  const char* name;
  void (*test)();
} kTests[] = {
    {"health", TestHealth}, {"missing", TestMissing}, {"put", TestPut},             {"delete", TestDelete},
    {"list", TestList},     {"count", TestCount},     {"increment", TestIncrement}, {"append", TestAppend},
};

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  port = atoi(argv[1]);
  for (const auto& t : kTests)
    if (strcmp(argv[2], t.name) == 0) {
      t.test();
      return failures != 0;
    }
  return 2;
}
