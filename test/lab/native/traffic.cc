// Traffic of one kind for a time, and what it cost.
//
//   traffic serve PORT
//   traffic KIND ADDRESS PORT MILLISECONDS
//
// Each kind has a port of the server: `connect` and `ask` the first (TCP), `stream` the next (TCP),
// `packets` and `flows` the one after that (UDP). The client prints JSON: seconds, count (of
// connections, requests, bytes, packets sent, conversations), p50 in microseconds where there is
// one, and the processor time of the whole machine in that time, in seconds.
#include <arpa/inet.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::size_t kRequestBytes = 64;
/* Of payload: the smallest frame that Ethernet has. */
constexpr std::size_t kPacketBytes = 18;
constexpr std::size_t kPacketsAtOnce = 64;
constexpr int kPacketsOfFlow = 20;
/* The first byte of a packet. */
constexpr char kAnswerMe = 'a';
constexpr char kDropMe = 'd';

[[noreturn]] void Fail(const char* what) {
  std::fprintf(stderr, "traffic: %s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

struct Address {
  sockaddr_storage storage{};
  socklen_t length = 0;
  [[nodiscard]] const sockaddr* get() const {
    return reinterpret_cast<const sockaddr*>(&storage);
  }
};

Address At(const char* text, int port) {
  Address at;
  const auto port_be = htons(static_cast<std::uint16_t>(port));
  auto* const four = reinterpret_cast<sockaddr_in*>(&at.storage);
  auto* const six = reinterpret_cast<sockaddr_in6*>(&at.storage);
  if (inet_pton(AF_INET, text, &four->sin_addr) == 1) {
    four->sin_family = AF_INET;
    four->sin_port = port_be;
    at.length = sizeof *four;
  } else if (inet_pton(AF_INET6, text, &six->sin6_addr) == 1) {
    six->sin6_family = AF_INET6;
    six->sin6_port = port_be;
    at.length = sizeof *six;
  } else {
    errno = EINVAL;
    Fail(text);
  }
  return at;
}

int NewSocket(int family, int type) {
  const int made = socket(family, type | SOCK_CLOEXEC, 0);
  if (made < 0) Fail("socket");
  const int on = 1;
  if (type == SOCK_STREAM) setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  const timeval patience{2, 0};
  setsockopt(made, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  return made;
}

int Connected(const Address& at, int type) {
  const int made = NewSocket(at.storage.ss_family, type);
  const timeval patience{2, 0};
  setsockopt(made, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  if (connect(made, at.get(), at.length) != 0) Fail("connect");
  return made;
}

/* A server's socket for both families. */
int Bound(int port, int type) {
  const int made = NewSocket(AF_INET6, type);
  const int on = 1;
  setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const Address at = At("::", port);
  if (bind(made, at.get(), at.length) != 0) Fail("bind");
  if (type == SOCK_STREAM && listen(made, 4096) != 0) Fail("listen");
  return made;
}

void Watch(int poller, int descriptor) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = descriptor;
  if (epoll_ctl(poller, EPOLL_CTL_ADD, descriptor, &event) != 0) Fail("epoll_ctl");
}

/* Sends back what it gets. */
[[noreturn]] void ServeRequests(int listener) {
  const int poller = epoll_create1(EPOLL_CLOEXEC);
  Watch(poller, listener);
  std::array<epoll_event, 64> events{};
  std::array<char, kRequestBytes> bytes{};
  for (;;) {
    const int count = epoll_wait(poller, events.data(), static_cast<int>(events.size()), -1);
    for (int i = 0; i < count; ++i) {
      const int ready = events[static_cast<std::size_t>(i)].data.fd;
      if (ready == listener) {
        const int connection = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
        if (connection >= 0) Watch(poller, connection);
        continue;
      }
      const ssize_t got = read(ready, bytes.data(), bytes.size());
      if (got <= 0 || write(ready, bytes.data(), static_cast<std::size_t>(got)) != got) {
        close(ready);
      }
    }
  }
}

/* Drops what it gets, without copying it. */
[[noreturn]] void ServeStreams(int listener) {
  for (;;) {
    const int connection = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection < 0) continue;
    while (recv(connection, nullptr, 1 << 24, MSG_TRUNC) > 0) {
    }
    close(connection);
  }
}

/* Answers packets that ask for it. While others come it sleeps most of the time: it is the way to
 * here that is measured. */
[[noreturn]] void ServePackets(int bound) {
  const int small = 4096;
  setsockopt(bound, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
  std::array<char, kPacketBytes> bytes{};
  int flags = 0;
  for (;;) {
    Address from;
    from.length = sizeof from.storage;
    auto* const sender = reinterpret_cast<sockaddr*>(&from.storage);
    const ssize_t got = recvfrom(bound, bytes.data(), bytes.size(), flags, sender, &from.length);
    if (got <= 0) {
      flags = 0;
    } else if (bytes[0] == kAnswerMe) {
      sendto(bound, bytes.data(), static_cast<std::size_t>(got), 0, sender, from.length);
    } else {
      if (flags == 0) std::this_thread::sleep_for(milliseconds(5));
      flags = MSG_DONTWAIT;
    }
  }
}

[[noreturn]] void Serve(int port) {
  const int requests = Bound(port, SOCK_STREAM);
  const int streams = Bound(port + 1, SOCK_STREAM);
  const int packets = Bound(port + 2, SOCK_DGRAM);
  std::puts("serving");
  std::fflush(stdout);
  std::thread streaming([streams] { ServeStreams(streams); });
  std::thread answering([packets] { ServePackets(packets); });
  ServeRequests(requests);
}

/* The time for which all processors of the machine have worked, in seconds. */
double BusySeconds() {
  std::FILE* const file = std::fopen("/proc/stat", "re");
  if (file == nullptr) Fail("/proc/stat");
  std::array<unsigned long long, 7> ticks{};  // user nice system idle iowait irq softirq
  const int got = std::fscanf(file, "cpu %llu %llu %llu %llu %llu %llu %llu", &ticks[0], &ticks[1],
                              &ticks[2], &ticks[3], &ticks[4], &ticks[5], &ticks[6]);
  std::fclose(file);
  if (got != static_cast<int>(ticks.size())) Fail("/proc/stat");
  const auto busy = ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6];
  return static_cast<double>(busy) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

double Microseconds(Clock::duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

/* What is measured, from its construction on. */
class Measurement {
 public:
  explicit Measurement(int milliseconds_long)
      : busy_(BusySeconds()),
        start_(Clock::now()),
        end_(start_ + milliseconds(milliseconds_long)) {}

  [[nodiscard]] bool IsOver() const { return Clock::now() >= end_; }

  void Took(Clock::duration duration) { took_us_.push_back(Microseconds(duration)); }

  void Print(double count) {
    const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    const double busy = BusySeconds() - busy_;
    std::printf("{\"seconds\":%.6f,\"count\":%.0f,\"busySeconds\":%.3f", seconds, count, busy);
    if (!took_us_.empty()) {
      std::sort(took_us_.begin(), took_us_.end());
      std::printf(",\"p50Us\":%.2f", took_us_[took_us_.size() / 2]);
    }
    std::puts("}");
  }

  [[nodiscard]] std::size_t taken() const { return took_us_.size(); }

 private:
  double busy_;
  Clock::time_point start_;
  Clock::time_point end_;
  std::vector<double> took_us_;
};

void Request(int connection) {
  std::array<char, kRequestBytes> bytes{};
  if (write(connection, bytes.data(), bytes.size()) != kRequestBytes) Fail("write");
  if (recv(connection, bytes.data(), bytes.size(), MSG_WAITALL) != kRequestBytes) Fail("recv");
}

/* Requests on one connection. */
void Ask(const Address& at, int milliseconds_long) {
  const int connection = Connected(at, SOCK_STREAM);
  for (int i = 0; i < 50; ++i) Request(connection);
  Measurement measurement(milliseconds_long);
  while (!measurement.IsOver()) {
    const auto before = Clock::now();
    Request(connection);
    measurement.Took(Clock::now() - before);
  }
  measurement.Print(static_cast<double>(measurement.taken()));
}

/* Connections, one after the other. They end by a reset, so that no port stays in TIME_WAIT. */
void Connect(const Address& at, int milliseconds_long) {
  const linger reset{1, 0};
  Measurement measurement(milliseconds_long);
  while (!measurement.IsOver()) {
    const int connection = NewSocket(at.storage.ss_family, SOCK_STREAM);
    setsockopt(connection, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    const auto before = Clock::now();
    if (connect(connection, at.get(), at.length) != 0) Fail("connect");
    measurement.Took(Clock::now() - before);
    close(connection);
  }
  measurement.Print(static_cast<double>(measurement.taken()));
}

void Stream(const Address& at, int milliseconds_long) {
  const int connection = Connected(at, SOCK_STREAM);
  static std::array<char, 1 << 17> bytes{};
  const auto send_some = [&]() -> double {
    const ssize_t sent = write(connection, bytes.data(), bytes.size());
    if (sent <= 0) Fail("write");
    return static_cast<double>(sent);
  };
  // Packets of 64 KiB, more than the fast path waits for.
  for (double warm = 0; warm < 16e6;) warm += send_some();
  double count = 0;
  Measurement measurement(milliseconds_long);
  while (!measurement.IsOver()) count += send_some();
  measurement.Print(count);
  close(connection);
}

void SendOne(int connection) {
  std::array<char, kPacketBytes> bytes{};
  bytes[0] = kAnswerMe;
  if (send(connection, bytes.data(), bytes.size(), 0) != kPacketBytes) Fail("send");
  if (recv(connection, bytes.data(), bytes.size(), 0) != kPacketBytes) Fail("recv");
}

/* The smallest packets of one conversation, as many as this processor sends. */
void Packets(const Address& at, int milliseconds_long) {
  const int connection = Connected(at, SOCK_DGRAM);
  for (int i = 0; i < 2 * kPacketsOfFlow; ++i) SendOne(connection);
  std::array<char, kPacketBytes> bytes{};
  bytes[0] = kDropMe;
  iovec part{bytes.data(), bytes.size()};
  std::array<mmsghdr, kPacketsAtOnce> packets{};
  for (mmsghdr& packet : packets) {
    packet.msg_hdr.msg_iov = &part;
    packet.msg_hdr.msg_iovlen = 1;
  }
  double count = 0;
  Measurement measurement(milliseconds_long);
  while (!measurement.IsOver()) {
    const int sent = sendmmsg(connection, packets.data(), kPacketsAtOnce, 0);
    if (sent <= 0) Fail("sendmmsg");
    count += sent;
  }
  measurement.Print(count);
}

/* Conversations of 20 packets, both directions together. */
void Flows(const Address& at, int milliseconds_long) {
  Measurement measurement(milliseconds_long);
  while (!measurement.IsOver()) {
    const auto before = Clock::now();
    const int connection = Connected(at, SOCK_DGRAM);
    for (int i = 0; i < kPacketsOfFlow / 2; ++i) SendOne(connection);
    close(connection);
    measurement.Took(Clock::now() - before);
  }
  measurement.Print(static_cast<double>(measurement.taken()));
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view verb = argc > 1 ? argv[1] : "";
  if (verb == "serve" && argc == 3) Serve(std::atoi(argv[2]));
  constexpr std::array kinds{std::pair{std::string_view("ask"), &Ask},
                             std::pair{std::string_view("connect"), &Connect},
                             std::pair{std::string_view("stream"), &Stream},
                             std::pair{std::string_view("packets"), &Packets},
                             std::pair{std::string_view("flows"), &Flows}};
  for (const auto& [name, measure] : kinds) {
    if (verb != name || argc != 5) continue;
    measure(At(argv[2], std::atoi(argv[3])), std::atoi(argv[4]));
    return 0;
  }
  std::fputs("usage: traffic serve PORT | connect|ask|stream|packets|flows ADDRESS PORT "
             "MILLISECONDS\n", stderr);
  return 2;
}
