// Connections as many as a machine gives, and who answered each.
//
//   load serve PORT
//   load connect ADDRESS PORT SECONDS CLIENTS FILE [COUNT]
//   load ask ADDRESS PORT COUNT
//
// The server sends each client the address that it connected to, and sends back what it
// gets. `connect` makes connections with a number of concurrent clients, each one after the other,
// for SECONDS, until SIGTERM, or until COUNT were answered, and writes to FILE for each the time
// before connect(2) (CLOCK_MONOTONIC, nanoseconds, 8 bytes), the address that answered (4 bytes,
// 0 = none did), and why none did (errno, 4 bytes; 0: the connection ended without an answer). `ask`
// sends 64 bytes on one connection again and again. Both print JSON.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string_view>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kMessageBytes = 64;

[[noreturn]] void Fail(const char* what) {
  std::fprintf(stderr, "load: %s: %s\n", what, std::strerror(errno));
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

int NewSocket() {
  const int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (made < 0) Fail("socket");
  const int on = 1;
  setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return made;
}

/* The address that the client connected to, in network order. */
std::uint32_t OwnAddress(int connection) {
  sockaddr_in own{};
  socklen_t length = sizeof own;
  getsockname(connection, reinterpret_cast<sockaddr*>(&own), &length);
  return own.sin_addr.s_addr;
}

void Watch(int poller, int descriptor) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = descriptor;
  if (epoll_ctl(poller, EPOLL_CTL_ADD, descriptor, &event) != 0) Fail("epoll_ctl");
}

void Accept(int listener, int poller) {
  const int connection = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (connection < 0) return;
  const std::uint32_t own = OwnAddress(connection);
  if (write(connection, &own, sizeof own) != sizeof own) close(connection);
  else Watch(poller, connection);
}

void Echo(int connection) {
  std::array<char, kMessageBytes> bytes{};
  const ssize_t got = read(connection, bytes.data(), bytes.size());
  if (got <= 0 || write(connection, bytes.data(), static_cast<std::size_t>(got)) != got) {
    close(connection);
  }
}

int Serve(const char* port) {
  const int listener = NewSocket();
  const int on = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const sockaddr_in at = At("0.0.0.0", port);
  if (bind(listener, reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0) Fail("bind");
  if (listen(listener, 4096) != 0) Fail("listen");
  const int poller = epoll_create1(EPOLL_CLOEXEC);
  Watch(poller, listener);
  std::puts("serving");
  std::fflush(stdout);
  std::array<epoll_event, 64> events{};
  for (;;) {
    const int count = epoll_wait(poller, events.data(), static_cast<int>(events.size()), -1);
    for (int i = 0; i < count; ++i) {
      const int ready = events[static_cast<std::size_t>(i)].data.fd;
      if (ready == listener) Accept(listener, poller);
      else Echo(ready);
    }
  }
}

struct Made {
  std::uint64_t started_ns;
  std::uint32_t by;
  std::int32_t error;
  std::uint32_t took_ns;
};

std::uint64_t Nanoseconds(Clock::duration duration) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count());
}

Made ConnectOnce(const sockaddr_in& at) {
  const linger reset{1, 0};
  const timeval patience{2, 0};
  const int connection = NewSocket();
  setsockopt(connection, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  const auto before = Clock::now();
  Made made{Nanoseconds(before.time_since_epoch()), 0, 0, 0};
  if (connect(connection, reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0) {
    made.error = errno;
  } else {
    made.took_ns = static_cast<std::uint32_t>(Nanoseconds(Clock::now() - before));
    const ssize_t got = read(connection, &made.by, sizeof made.by);
    if (got < 0) made.error = errno;
    if (got != sizeof made.by) made.by = 0;
  }
  close(connection);
  return made;
}

int Connect(const sockaddr_in& at, int seconds, std::size_t clients, const char* file,
            std::size_t most) {
  std::vector<std::vector<Made>> made(clients);
  // Blocked in all threads, so that it interrupts no connection.
  sigset_t ending;
  sigemptyset(&ending);
  sigaddset(&ending, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &ending, nullptr);
  const auto started = Clock::now();
  std::atomic<bool> ends = false;
  std::atomic<std::size_t> answered = 0;
  std::vector<std::thread> threads;
  for (auto& mine : made) {
    threads.emplace_back([&mine, &at, &ends, &answered, most] {
      while (!ends) {
        mine.push_back(ConnectOnce(at));
        // The signal that ends the wait below.
        if (mine.back().by != 0 && ++answered == most) kill(getpid(), SIGTERM);
        if (answered >= most) break;
      }
    });
  }
  const timespec longest{seconds, 0};
  sigtimedwait(&ending, nullptr, &longest);
  ends = true;
  for (auto& thread : threads) thread.join();
  const double took = std::chrono::duration<double>(Clock::now() - started).count();
  std::ofstream out(file, std::ios::binary);
  std::vector<double> took_us;
  std::size_t count = 0;
  for (const auto& mine : made) {
    for (const Made& one : mine) {
      out.write(reinterpret_cast<const char*>(&one.started_ns), sizeof one.started_ns);
      out.write(reinterpret_cast<const char*>(&one.by), sizeof one.by);
      out.write(reinterpret_cast<const char*>(&one.error), sizeof one.error);
      ++count;
      if (one.by != 0) took_us.push_back(one.took_ns / 1e3);
    }
  }
  if (took_us.empty()) took_us.push_back(0);
  std::sort(took_us.begin(), took_us.end());
  std::printf("{\"connections\":%zu,\"perSecond\":%.0f,\"p50Us\":%.1f,\"p99Us\":%.1f}\n", count,
              static_cast<double>(count) / took, took_us[took_us.size() / 2],
              took_us[took_us.size() * 99 / 100]);
  return 0;
}

double ProcessorMicroseconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto microseconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_usec);
  };
  return microseconds(used.ru_utime) + microseconds(used.ru_stime);
}

int Ask(const sockaddr_in& at, std::size_t count) {
  const int connection = NewSocket();
  if (connect(connection, reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0) Fail("connect");
  std::array<char, kMessageBytes> bytes{};
  if (read(connection, bytes.data(), sizeof(std::uint32_t)) != sizeof(std::uint32_t)) Fail("read");
  std::vector<double> took_us;
  took_us.reserve(count);
  const double processor = ProcessorMicroseconds();
  for (std::size_t i = 0; i < count; ++i) {
    const auto before = Clock::now();
    if (write(connection, bytes.data(), bytes.size()) != kMessageBytes) Fail("write");
    if (recv(connection, bytes.data(), bytes.size(), MSG_WAITALL) != kMessageBytes) Fail("recv");
    took_us.push_back(std::chrono::duration<double, std::micro>(Clock::now() - before).count());
  }
  const double used = ProcessorMicroseconds() - processor;
  std::sort(took_us.begin(), took_us.end());
  std::printf("{\"p50Us\":%.2f,\"processorUs\":%.2f}\n", took_us[count / 2],
              used / static_cast<double>(count));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view verb = argc > 1 ? argv[1] : "";
  if (verb == "serve" && argc == 3) return Serve(argv[2]);
  if (verb == "connect" && (argc == 7 || argc == 8)) {
    const auto clients = static_cast<std::size_t>(std::atoi(argv[5]));
    const auto most = argc == 8 ? static_cast<std::size_t>(std::atoi(argv[7])) : SIZE_MAX;
    return Connect(At(argv[2], argv[3]), std::atoi(argv[4]), clients, argv[6], most);
  }
  if (verb == "ask" && argc == 5 && std::atoi(argv[4]) > 0) {
    return Ask(At(argv[2], argv[3]), static_cast<std::size_t>(std::atoi(argv[4])));
  }
  std::fputs("usage: load serve PORT | connect ADDRESS PORT SECONDS CLIENTS FILE [COUNT] | "
             "ask ADDRESS PORT COUNT\n", stderr);
  return 2;
}
