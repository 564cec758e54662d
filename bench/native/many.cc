// Many TCP connections at the same time: their server, their clients, and the least that carries
// them from one to the other.
//
//   many serve PORT
//   many relay PORT ADDRESS PORT COUNT
//   many ask ADDRESS PORT CONNECTIONS MILLISECONDS
//   many stream ADDRESS PORT CONNECTIONS MILLISECONDS
//   many hold idle|push ADDRESS PORT CONNECTIONS SOURCE COUNT
//
// The server has three ports: at the first it sends back what it gets, at the next it drops it, at
// the third it reads nothing and sends as much as is taken. `relay` listens at COUNT ports and
// carries each to the same of COUNT ports of the address; it reads what the other side has taken.
// `ask` makes connections, CONNECTIONS at a time; each is counted when 64 bytes have come back, and
// ends by a reset, so that no port stays in TIME_WAIT. `stream` sends on all connections. Both print
// JSON: seconds, count (of connections, of bytes), and `all`, with what was done before the
// measurement. `hold` opens connections from COUNT addresses, the first of which is SOURCE, with 64
// bytes that come back (`idle`), or reads nothing and sends as much as is taken (`push`). It prints
// a line when all are open, opens those again that end, and ends with its input.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kMessageBytes = 64;
constexpr std::size_t kBlockBytes = 64 * 1024;
constexpr int kPorts = 3;
constexpr int kEchoPort = 0;
constexpr int kSinkPort = 1;

[[noreturn]] void Fail(const char* what) {
  std::fprintf(stderr, "many: %s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

sockaddr_in At(const char* address, int port) {
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(static_cast<std::uint16_t>(port));
  if (inet_pton(AF_INET, address, &at.sin_addr) != 1) {
    errno = EINVAL;
    Fail(address);
  }
  return at;
}

const sockaddr* Generic(const sockaddr_in& at) { return reinterpret_cast<const sockaddr*>(&at); }

void Prepare(int connection) {
  const int on = 1;
  setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

int NewSocket() {
  const int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (made < 0) Fail("socket");
  Prepare(made);
  return made;
}

void Reset(int connection) {
  const linger reset{1, 0};
  setsockopt(connection, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  close(connection);
}

int Dial(const sockaddr_in& at) {
  const int made = NewSocket();
  if (connect(made, Generic(at), sizeof at) != 0 && errno != EINPROGRESS) Fail("connect");
  return made;
}

int Listen(int port) {
  const int made = NewSocket();
  const int on = 1;
  setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const sockaddr_in at = At("0.0.0.0", port);
  if (bind(made, Generic(at), sizeof at) != 0) Fail("bind");
  if (listen(made, 4096) != 0) Fail("listen");
  return made;
}

bool IsLater() { return errno == EAGAIN || errno == EINTR; }

// Sends as much as is taken. False: the connection has ended.
bool Push(int connection) {
  static const std::array<char, kBlockBytes> bytes{};
  while (send(connection, bytes.data(), bytes.size(), MSG_NOSIGNAL) > 0) {
  }
  return IsLater();
}

class Poller {
 public:
  Poller() : poller_(epoll_create1(EPOLL_CLOEXEC)) {
    if (poller_ < 0) Fail("epoll_create1");
  }

  void Watch(int descriptor, std::uint32_t events, void* what, int op = EPOLL_CTL_ADD) {
    epoll_event event{};
    event.events = events;
    event.data.ptr = what;
    if (epoll_ctl(poller_, op, descriptor, &event) != 0) Fail("epoll_ctl");
  }

  template <typename F>
  void Wait(int milliseconds_long, F&& found) {
    const auto size = static_cast<int>(events_.size());
    const int count = epoll_wait(poller_, events_.data(), size, milliseconds_long);
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events_[static_cast<std::size_t>(i)];
      found(event.data.ptr, event.events);
    }
  }

 private:
  int poller_;
  std::array<epoll_event, 256> events_{};
};

struct Served {
  int descriptor;
  int kind;
  bool is_listener;
};

// False: it has ended.
bool Serve(const Served& served) {
  static std::array<char, kBlockBytes> bytes{};
  if (served.kind == kSinkPort) {
    const ssize_t got = recv(served.descriptor, nullptr, 1 << 24, MSG_TRUNC);
    return got > 0 || (got < 0 && IsLater());
  }
  if (served.kind != kEchoPort) return Push(served.descriptor);
  const ssize_t got = recv(served.descriptor, bytes.data(), bytes.size(), 0);
  if (got < 0) return IsLater();
  const auto size = static_cast<std::size_t>(got);
  return got > 0 && send(served.descriptor, bytes.data(), size, MSG_NOSIGNAL) == got;
}

[[noreturn]] void ServeAll(int port) {
  Poller poller;
  for (int kind = 0; kind < kPorts; ++kind) {
    auto* const listener = new Served{Listen(port + kind), kind, true};
    poller.Watch(listener->descriptor, EPOLLIN, listener);
  }
  std::puts("serving");
  std::fflush(stdout);
  for (;;) {
    poller.Wait(-1, [&](void* what, std::uint32_t) {
      auto* const served = static_cast<Served*>(what);
      if (!served->is_listener) {
        if (Serve(*served)) return;
        close(served->descriptor);
        delete served;
        return;
      }
      const int made = accept4(served->descriptor, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (made < 0) return;
      Prepare(made);
      const bool pushes = served->kind != kEchoPort && served->kind != kSinkPort;
      poller.Watch(made, pushes ? EPOLLOUT : EPOLLIN, new Served{made, served->kind, false});
    });
  }
}

struct Joined;

// One side of a connection that is relayed, and what it has not taken yet of the other side.
struct Side {
  int descriptor = -1;
  Side* other = nullptr;
  Joined* joined = nullptr;
  bool has_ended = false;
  std::unique_ptr<char[]> waiting;
  std::size_t from = 0;
  std::size_t to = 0;
};

struct Joined {
  std::array<Side, 2> sides;
  bool is_over = false;
};

struct Relayed {
  int descriptor;
  sockaddr_in target;
};

class Relay {
 public:
  [[noreturn]] void Run(int port, const char* address, int target, int count) {
    for (int i = 0; i < count; ++i) {
      auto* const one = new Relayed{Listen(port + i), At(address, target + i)};
      listeners_.insert(one);
      poller_.Watch(one->descriptor, EPOLLIN, one);
    }
    std::puts("relaying");
    std::fflush(stdout);
    for (;;) {
      poller_.Wait(-1, [&](void* what, std::uint32_t) {
        if (listeners_.contains(what)) {
          Accept(*static_cast<Relayed*>(what));
        } else {
          Carry(*static_cast<Side*>(what));
        }
      });
      // Events of one turn may be about either side of one that has ended in it.
      for (Joined* const over : over_) delete over;
      over_.clear();
    }
  }

 private:
  void Accept(const Relayed& relayed) {
    const int made = accept4(relayed.descriptor, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (made < 0) return;
    Prepare(made);
    auto* const joined = new Joined;
    auto& [client, server] = joined->sides;
    client.descriptor = made;
    server.descriptor = Dial(relayed.target);
    client.other = &server;
    server.other = &client;
    for (Side& side : joined->sides) {
      side.joined = joined;
      // By edges: both directions are tried whenever something has become possible.
      poller_.Watch(side.descriptor, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, &side);
    }
  }

  void Carry(Side& side) {
    Joined& joined = *side.joined;
    if (joined.is_over) return;
    if (!Move(side, *side.other) || !Move(*side.other, side)) {
      End(joined, true);
    } else if (joined.sides[0].has_ended && joined.sides[1].has_ended) {
      End(joined, false);
    }
  }

  // From one side to the other, until one of them has to wait. False: an error.
  static bool Move(Side& from, Side& to) {
    for (;;) {
      while (to.from < to.to) {
        const char* const rest = to.waiting.get() + to.from;
        const ssize_t sent = send(to.descriptor, rest, to.to - to.from, MSG_NOSIGNAL);
        if (sent < 0) return IsLater() || errno == ENOTCONN;
        to.from += static_cast<std::size_t>(sent);
      }
      if (from.has_ended) return true;
      static std::array<char, kBlockBytes> bytes{};
      const ssize_t got = recv(from.descriptor, bytes.data(), bytes.size(), 0);
      if (got < 0) return IsLater() || errno == ENOTCONN;
      if (got == 0) {
        from.has_ended = true;
        shutdown(to.descriptor, SHUT_WR);
        return true;
      }
      const auto size = static_cast<std::size_t>(got);
      const ssize_t sent = send(to.descriptor, bytes.data(), size, MSG_NOSIGNAL);
      if (sent == got) continue;
      if (sent < 0 && !IsLater() && errno != ENOTCONN) return false;
      if (!to.waiting) to.waiting = std::make_unique<char[]>(kBlockBytes);
      to.from = 0;
      to.to = size - static_cast<std::size_t>(sent < 0 ? 0 : sent);
      std::memcpy(to.waiting.get(), bytes.data() + (size - to.to), to.to);
    }
  }

  void End(Joined& joined, bool is_error) {
    joined.is_over = true;
    for (const Side& side : joined.sides) {
      if (is_error) {
        Reset(side.descriptor);
      } else {
        close(side.descriptor);
      }
    }
    over_.push_back(&joined);
  }

  Poller poller_;
  std::unordered_set<const void*> listeners_;
  std::vector<Joined*> over_;
};

class Measurement {
 public:
  explicit Measurement(int milliseconds_long)
      : start_(Clock::now()), end_(start_ + std::chrono::milliseconds(milliseconds_long)) {}

  [[nodiscard]] bool IsOver() const { return Clock::now() >= end_; }

  // `before`: what was done before the measurement.
  void Print(double count, double before = 0) const {
    const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    const double all = before + count;
    std::printf("{\"seconds\":%.6f,\"count\":%.0f,\"all\":%.0f}\n", seconds, count, all);
  }

 private:
  Clock::time_point start_;
  Clock::time_point end_;
};

constexpr std::array<char, kMessageBytes> kMessage{};

struct Asking {
  int descriptor;
  bool has_asked;
};

void Ask(const sockaddr_in& at, int connections, int milliseconds_long) {
  Poller poller;
  const auto begin = [&](Asking* asking) {
    *asking = {Dial(at), false};
    poller.Watch(asking->descriptor, EPOLLOUT, asking);
  };
  for (int i = 0; i < connections; ++i) begin(new Asking);
  const Measurement measurement(milliseconds_long);
  double count = 0;
  int failed = 0;
  while (!measurement.IsOver()) {
    poller.Wait(100, [&](void* what, std::uint32_t) {
      auto* const asking = static_cast<Asking*>(what);
      if (!asking->has_asked) {
        asking->has_asked = true;
        if (send(asking->descriptor, kMessage.data(), kMessage.size(), MSG_NOSIGNAL) > 0) {
          poller.Watch(asking->descriptor, EPOLLIN, asking, EPOLL_CTL_MOD);
          return;
        }
      } else {
        std::array<char, kMessageBytes> bytes{};
        if (recv(asking->descriptor, bytes.data(), bytes.size(), 0) == kMessageBytes) {
          count += 1;
          Reset(asking->descriptor);
          begin(asking);
          return;
        }
      }
      failed += 1;
      Reset(asking->descriptor);
      begin(asking);
    });
  }
  measurement.Print(count);
  if (failed > 0) std::fprintf(stderr, "many: %d connections have failed\n", failed);
}

void Stream(const sockaddr_in& at, int connections, int milliseconds_long) {
  static const std::array<char, kBlockBytes> bytes{};
  Poller poller;
  std::vector<int> descriptors(static_cast<std::size_t>(connections));
  for (int& one : descriptors) {
    one = Dial(at);
    poller.Watch(one, EPOLLOUT, &one);
  }
  const auto run = [&](const Measurement& measurement) {
    double count = 0;
    while (!measurement.IsOver()) {
      poller.Wait(100, [&](void* what, std::uint32_t) {
        const int connection = *static_cast<int*>(what);
        const ssize_t sent = send(connection, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (sent < 0 && !IsLater()) Fail("send");
        if (sent > 0) count += static_cast<double>(sent);
      });
    }
    return count;
  };
  // Buffers have their sizes after some time.
  const double before = run(Measurement(milliseconds_long / 2));
  const Measurement measurement(milliseconds_long);
  measurement.Print(run(measurement), before);
}

struct Held {
  int descriptor = -1;
  int source = 0;
  bool is_open = false;
};

class Holder {
 public:
  Holder(const sockaddr_in& at, bool pushes) : at_(at), pushes_(pushes) {}

  void Run(int connections, const char* source, int sources) {
    std::vector<Held> all(static_cast<std::size_t>(connections));
    poller_.Watch(STDIN_FILENO, EPOLLIN, nullptr);
    for (int i = 0; i < connections; ++i) {
      Held& held = all[static_cast<std::size_t>(i)];
      held.source = i % sources;
      Open(held, source);
    }
    int open = 0;
    for (bool is_over = false; !is_over;) {
      poller_.Wait(-1, [&](void* what, std::uint32_t events) {
        auto* const held = static_cast<Held*>(what);
        is_over = is_over || held == nullptr;
        if (held == nullptr) return;
        if (!Continue(*held, events)) {
          close(held->descriptor);
          Open(*held, source);
        } else if (!std::exchange(held->is_open, true) && ++open == connections) {
          std::puts("open");
          std::fflush(stdout);
        }
      });
    }
  }

 private:
  void Open(Held& held, const char* source) {
    held.descriptor = NewSocket();
    sockaddr_in from = At(source, 0);
    from.sin_addr.s_addr = htonl(ntohl(from.sin_addr.s_addr) + static_cast<unsigned>(held.source));
    const int on = 1;
    setsockopt(held.descriptor, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
    if (bind(held.descriptor, Generic(from), sizeof from) != 0) Fail("bind");
    if (connect(held.descriptor, Generic(at_), sizeof at_) != 0 && errno != EINPROGRESS) {
      Fail("connect");
    }
    poller_.Watch(held.descriptor, EPOLLOUT | EPOLLET, &held);
  }

  // False: the connection has ended.
  bool Continue(const Held& held, std::uint32_t events) {
    if ((events & (EPOLLERR | EPOLLHUP)) != 0) return false;
    if (pushes_) return Push(held.descriptor);
    if ((events & EPOLLIN) != 0) {
      std::array<char, kMessageBytes> bytes{};
      const ssize_t got = recv(held.descriptor, bytes.data(), bytes.size(), 0);
      return got > 0 || (got < 0 && IsLater());
    }
    if (held.is_open) return true;
    auto* const what = const_cast<Held*>(&held);
    poller_.Watch(held.descriptor, EPOLLIN | EPOLLET, what, EPOLL_CTL_MOD);
    return send(held.descriptor, kMessage.data(), kMessage.size(), MSG_NOSIGNAL) > 0;
  }

  Poller poller_;
  sockaddr_in at_;
  bool pushes_;
};

void AllowManyFiles() {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
}

}  // namespace

int main(int argc, char** argv) {
  AllowManyFiles();
  const std::string_view verb = argc > 1 ? argv[1] : "";
  const auto integer = [&](int i) { return std::atoi(argv[i]); };
  if (verb == "serve" && argc == 3) ServeAll(integer(2));
  if (verb == "relay" && argc == 6) Relay().Run(integer(2), argv[3], integer(4), integer(5));
  if (verb == "ask" && argc == 6) {
    Ask(At(argv[2], integer(3)), integer(4), integer(5));
  } else if (verb == "stream" && argc == 6) {
    Stream(At(argv[2], integer(3)), integer(4), integer(5));
  } else if (verb == "hold" && argc == 8) {
    const bool pushes = std::string_view(argv[2]) == "push";
    Holder(At(argv[3], integer(4)), pushes).Run(integer(5), argv[6], integer(7));
  } else {
    std::fputs("usage: many serve|relay|ask|stream|hold …\n", stderr);
    return 2;
  }
  return 0;
}
