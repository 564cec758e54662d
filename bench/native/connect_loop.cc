// Measures the cost of a connection, with a server that accepts and closes, and a client that
// connects.
//
//   connect_loop serve PORT
//   connect_loop connect ADDRESS PORT COUNT
//
// The client prints JSON: connections a second, and p50 and p99 of connect(2) in microseconds. It
// closes with a reset, so that no port stays in TIME_WAIT.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

[[noreturn]] void Fail(const char* what) {
  std::fprintf(stderr, "connect_loop: %s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

sockaddr_in At(const char* address, const char* port) {
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(static_cast<std::uint16_t>(std::atoi(port)));
  if (inet_pton(AF_INET, address, &at.sin_addr) != 1) {
    errno = EINVAL;
    Fail(address);
  }
  return at;
}

int Serve(const char* port) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const sockaddr_in at = At("0.0.0.0", port);
  if (bind(listener, reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0) Fail("bind");
  if (listen(listener, 1024) != 0) Fail("listen");
  std::puts("serving");
  std::fflush(stdout);
  for (;;) {
    const int connection = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection >= 0) close(connection);
  }
}

int Connect(const char* address, const char* port, std::size_t count) {
  const sockaddr_in at = At(address, port);
  const linger reset{1, 0};
  std::vector<double> took_us;
  took_us.reserve(count);
  const auto started = Clock::now();
  for (std::size_t i = 0; i < count; ++i) {
    const int connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connection < 0) Fail("socket");
    setsockopt(connection, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    const auto before = Clock::now();
    if (connect(connection, reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0) {
      Fail("connect");
    }
    took_us.push_back(std::chrono::duration<double, std::micro>(Clock::now() - before).count());
    close(connection);
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - started).count();
  std::sort(took_us.begin(), took_us.end());
  std::printf("{\"perSecond\":%.0f,\"p50Us\":%.1f,\"p99Us\":%.1f}\n",
              static_cast<double>(count) / seconds, took_us[count / 2], took_us[count * 99 / 100]);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::string_view(argv[1]) == "serve") return Serve(argv[2]);
  if (argc == 5 && std::string_view(argv[1]) == "connect" && std::atoi(argv[4]) > 0) {
    return Connect(argv[2], argv[3], static_cast<std::size_t>(std::atoi(argv[4])));
  }
  std::fputs("usage: connect_loop serve PORT | connect ADDRESS PORT COUNT\n", stderr);
  return 2;
}
