// Measures the cost of a connection, with a server that accepts and closes, and a client that
// connects.
//
//   connect_loop serve PORT
//   connect_loop connect ADDRESS PORT COUNT
//   connect_loop pace new|open ADDRESS PORT
//   connect_loop until ADDRESS PORT PAUSE_MS LIMIT_MS
//   connect_loop flood FIRST COUNT PORT RATE SECONDS
//   connect_loop turns NAMESPACE NAMESPACE ADDRESS PORT BLOCKS
//
// The client prints JSON: connections a second, and p50 and p99 of connect(2) in microseconds. It
// closes with a reset, so that no port stays in TIME_WAIT.
//
// `pace` connects each millisecond (`new`), or sends a byte on one connection and waits for it to
// come back (`open`, from the server of test/lab/native/load.cc), until its input ends. Then it prints
// JSON: how often, how often it failed, and p50, p99, p99.9 and the longest time in microseconds,
// each from the moment at which it was due.
//
// `until` connects again and again, with a pause between two attempts, and ends once a connection is
// made, or with 1 after the limit.
//
// `flood` sends RATE SYNs a second, each of another connection, from all ports to COUNT addresses from
// FIRST on, and prints how many it has sent a second.
//
// `turns` connects in two network namespaces (paths) in turns, and prints JSON: for each block of 500
// pairs the processor time of a connection in the one and the other, in microseconds. It is that of
// this thread, in which the kernel also carries the packets of veth pairs.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <thread>
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

bool ConnectOnce(const sockaddr_in& at) {
  const linger reset{1, 0};
  const int connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connection < 0) Fail("socket");
  setsockopt(connection, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  const bool connected =
      connect(connection, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0;
  close(connection);
  return connected;
}

/** A connection to the server of test/lab/native/load.cc, which first sends its address. */
int OpenConnection(const sockaddr_in& at) {
  const int connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (connect(connection, reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0) Fail("connect");
  std::uint32_t server = 0;
  if (recv(connection, &server, sizeof server, MSG_WAITALL) != sizeof server) Fail("receive");
  return connection;
}

bool Exchange(int connection) {
  char byte = 'x';
  return send(connection, &byte, 1, MSG_NOSIGNAL) == 1 && recv(connection, &byte, 1, 0) == 1;
}

bool InputEnded() {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  return poll(&input, 1, 0) > 0;
}

int Pace(bool open, const char* address, const char* port) {
  constexpr std::chrono::milliseconds kPeriod{1};
  const sockaddr_in at = At(address, port);
  const int connection = open ? OpenConnection(at) : -1;
  std::vector<double> took_us;
  std::size_t failed = 0;
  auto due = Clock::now();
  while (!InputEnded()) {
    due += kPeriod;
    std::this_thread::sleep_until(due);
    if (!(open ? Exchange(connection) : ConnectOnce(at))) ++failed;
    took_us.push_back(std::chrono::duration<double, std::micro>(Clock::now() - due).count());
  }
  if (took_us.empty()) took_us.push_back(0);
  std::sort(took_us.begin(), took_us.end());
  const std::size_t count = took_us.size();
  std::printf(
      "{\"count\":%zu,\"failed\":%zu,\"p50Us\":%.1f,\"p99Us\":%.1f,\"p999Us\":%.1f,"
      "\"maxUs\":%.1f}\n",
      count, failed, took_us[count / 2], took_us[count * 99 / 100], took_us[count * 999 / 1000],
      took_us.back());
  return 0;
}

/** A SYN that is dropped is not sent again in this time. */
constexpr int kAttemptMs = 50;

bool ConnectsSoon(const sockaddr_in& at) {
  const linger reset{1, 0};
  const int connection = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (connection < 0) Fail("socket");
  setsockopt(connection, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  bool connected = connect(connection, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0;
  if (!connected && errno == EINPROGRESS) {
    pollfd made{connection, POLLOUT, 0};
    int error = 0;
    socklen_t size = sizeof error;
    connected = poll(&made, 1, kAttemptMs) == 1 &&
                getsockopt(connection, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
  }
  close(connection);
  return connected;
}

int Until(const char* address, const char* port, std::chrono::milliseconds pause,
          std::chrono::milliseconds limit) {
  const sockaddr_in at = At(address, port);
  const auto last = Clock::now() + limit;
  while (!ConnectsSoon(at)) {
    if (Clock::now() > last) return 1;
    std::this_thread::sleep_for(pause);
  }
  return 0;
}

/** Adds 16-bit words in network byte order (RFC 1071). */
std::uint32_t SumOf(const void* bytes, std::size_t size) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < size; i += 2) {
    std::uint16_t word;
    std::memcpy(&word, static_cast<const char*>(bytes) + i, sizeof word);
    sum += word;
  }
  return sum;
}

in_addr SourceTo(const sockaddr_in& at) {
  const int asking = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_in own{};
  socklen_t size = sizeof own;
  if (connect(asking, reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0 ||
      getsockname(asking, reinterpret_cast<sockaddr*>(&own), &size) != 0) {
    Fail("source address");
  }
  close(asking);
  return own.sin_addr;
}

int Flood(const char* first, std::uint32_t addresses, const char* port, std::size_t rate,
          int seconds) {
  constexpr std::uint32_t kFirstPort = 1024;
  constexpr std::uint32_t kPorts = 65536 - kFirstPort;
  constexpr std::chrono::milliseconds kTick{1};
  sockaddr_in at = At(first, port);
  const int raw = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_TCP);
  if (raw < 0) Fail("socket");
  struct {
    in_addr source;
    in_addr destination;
    std::uint16_t protocol;
    std::uint16_t length;
  } pseudo{SourceTo(at), {}, htons(IPPROTO_TCP), htons(sizeof(tcphdr))};
  const std::uint32_t base = ntohl(at.sin_addr.s_addr);
  const std::uint16_t to = at.sin_port;
  at.sin_port = 0;
  const auto started = Clock::now();
  std::size_t sent = 0;
  const auto end = started + std::chrono::seconds(seconds);
  for (auto due = started; std::max(due, Clock::now()) < end; due += kTick) {
    std::this_thread::sleep_until(due);
    for (std::size_t i = 0; i < rate / 1000; ++i, ++sent) {
      const auto number = static_cast<std::uint32_t>(sent);
      at.sin_addr.s_addr = htonl(base + number / kPorts % addresses);
      pseudo.destination = at.sin_addr;
      tcphdr syn{};
      syn.source = htons(static_cast<std::uint16_t>(kFirstPort + number % kPorts));
      syn.dest = to;
      syn.seq = htonl(number);
      syn.doff = sizeof syn / 4;
      syn.syn = 1;
      syn.window = htons(64240);
      std::uint32_t sum = SumOf(&pseudo, sizeof pseudo) + SumOf(&syn, sizeof syn);
      while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
      syn.check = static_cast<std::uint16_t>(~sum);
      // One that the queue has no room for is lost, as on a wire.
      (void)sendto(raw, &syn, sizeof syn, 0, reinterpret_cast<const sockaddr*>(&at), sizeof at);
    }
  }
  const double took = std::chrono::duration<double>(Clock::now() - started).count();
  std::printf("{\"perSecond\":%.0f}\n", static_cast<double>(sent) / took);
  return 0;
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

double ProcessorUs() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

int Turns(const char* const* namespaces, const char* address, const char* port, int blocks) {
  constexpr int kBlock = 500;
  const sockaddr_in at = At(address, port);
  int inside[2];
  for (int side = 0; side < 2; ++side) {
    inside[side] = open(namespaces[side], O_RDONLY | O_CLOEXEC);
    if (inside[side] < 0) Fail(namespaces[side]);
  }
  for (int block = 0; block < blocks; ++block) {
    double used[2] = {};
    for (int i = 0; i < 2 * kBlock; ++i) {
      // Who comes first changes with each pair: 0, 1, 1, 0.
      const int side = (i + i / 2) % 2;
      if (setns(inside[side], CLONE_NEWNET) != 0) Fail("setns");
      const double before = ProcessorUs();
      if (!ConnectOnce(at)) Fail("connect");
      used[side] += ProcessorUs() - before;
    }
    std::printf("%s[%.3f,%.3f]", block == 0 ? "[" : ",", used[0] / kBlock, used[1] / kBlock);
  }
  std::puts("]");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::string_view(argv[1]) == "serve") return Serve(argv[2]);
  if (argc == 5 && std::string_view(argv[1]) == "connect" && std::atoi(argv[4]) > 0) {
    return Connect(argv[2], argv[3], static_cast<std::size_t>(std::atoi(argv[4])));
  }
  if (argc == 5 && std::string_view(argv[1]) == "pace") {
    return Pace(std::string_view(argv[2]) == "open", argv[3], argv[4]);
  }
  if (argc == 6 && std::string_view(argv[1]) == "until") {
    using std::chrono::milliseconds;
    return Until(argv[2], argv[3], milliseconds(std::atoi(argv[4])),
                 milliseconds(std::atoi(argv[5])));
  }
  if (argc == 7 && std::string_view(argv[1]) == "turns") {
    return Turns(argv + 2, argv[4], argv[5], std::atoi(argv[6]));
  }
  if (argc == 7 && std::string_view(argv[1]) == "flood" && std::atoi(argv[3]) > 0) {
    return Flood(argv[2], static_cast<std::uint32_t>(std::atoi(argv[3])), argv[4],
                 static_cast<std::size_t>(std::atoi(argv[5])), std::atoi(argv[6]));
  }
  std::fputs(
      "usage: connect_loop serve PORT | connect ADDRESS PORT COUNT | pace new|open ADDRESS PORT\n"
      "       | until ADDRESS PORT PAUSE_MS LIMIT_MS | flood FIRST COUNT PORT RATE SECONDS\n"
      "       | turns NAMESPACE NAMESPACE ADDRESS PORT BLOCKS\n",
      stderr);
  return 2;
}
