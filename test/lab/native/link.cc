// A link between two network namespaces that loses packets and delivers some late, where the kernel
// has no netem.
//
//   link NAMESPACE DEVICE NAMESPACE DEVICE
//
// Namespaces are paths. Makes a device (tun) in each, prints a line, and carries packets between
// them until its standard input ends. A line of input, `LOSS DELAY`, says from then on how many
// packets of a hundred are lost in each direction, and by how many milliseconds those of the second
// device are late. It begins with 0 0.
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <random>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kPacketMost = 65536;

[[noreturn]] void Fail(const char* what) {
  std::fprintf(stderr, "link: %s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

int DeviceIn(const char* network, const char* name) {
  const int file = open(network, O_RDONLY | O_CLOEXEC);
  if (file < 0 || setns(file, CLONE_NEWNET) != 0) Fail(network);
  close(file);
  const int device = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (device < 0) Fail("/dev/net/tun");
  ifreq request{};
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  std::strncpy(request.ifr_name, name, IFNAMSIZ - 1);
  if (ioctl(device, TUNSETIFF, &request) != 0) Fail(name);
  return device;
}

struct Late {
  Clock::time_point due;
  std::vector<char> packet;
};

class Link {
 public:
  Link(int first, int second) : first_(first), second_(second) {}

  void Run() {
    while (true) {
      std::array<pollfd, 3> ready{{{first_, POLLIN, 0}, {second_, POLLIN, 0}, {0, POLLIN, 0}}};
      if (poll(ready.data(), ready.size(), UntilNext()) < 0 && errno != EINTR) Fail("poll");
      Deliver();
      if (ready[0].revents != 0) Take(first_, [this](std::vector<char> packet) {
        Send(second_, packet);
      });
      if (ready[1].revents != 0) Take(second_, [this](std::vector<char> packet) {
        if (delay_.count() == 0) return Send(first_, packet);
        late_.push_back({Clock::now() + delay_, std::move(packet)});
      });
      if (ready[2].revents != 0 && !Obey()) return;
    }
  }

 private:
  int UntilNext() const {
    if (late_.empty()) return -1;
    const auto left = late_.front().due - Clock::now();
    const auto ms = std::chrono::ceil<std::chrono::milliseconds>(left).count();
    return static_cast<int>(std::max<long>(0, ms));
  }

  void Deliver() {
    for (; !late_.empty() && late_.front().due <= Clock::now(); late_.pop_front()) {
      Send(first_, late_.front().packet);
    }
  }

  template <typename Then>
  void Take(int from, Then then) {
    while (true) {
      const ssize_t got = read(from, buffer_.data(), buffer_.size());
      if (got <= 0) return;
      if (hundred_(random_) < loss_) continue;
      then(std::vector<char>(buffer_.begin(), buffer_.begin() + got));
    }
  }

  // A device that is down refuses packets: they are lost.
  static void Send(int to, const std::vector<char>& packet) {
    [[maybe_unused]] const ssize_t sent = write(to, packet.data(), packet.size());
  }

  // False: the input has ended.
  bool Obey() {
    std::array<char, 256> text{};
    const ssize_t got = read(0, text.data(), text.size());
    if (got <= 0) return false;
    input_.append(text.data(), static_cast<std::size_t>(got));
    for (std::size_t end = 0; (end = input_.find('\n')) != std::string::npos;) {
      long delay = 0;
      if (std::sscanf(input_.c_str(), "%d %ld", &loss_, &delay) != 2) return false;
      delay_ = std::chrono::milliseconds(delay);
      input_.erase(0, end + 1);
    }
    return true;
  }

  int first_;
  int second_;
  int loss_ = 0;
  std::chrono::milliseconds delay_{0};
  std::deque<Late> late_;
  std::string input_;
  std::vector<char> buffer_ = std::vector<char>(kPacketMost);
  std::mt19937 random_{std::random_device{}()};
  std::uniform_int_distribution<int> hundred_{0, 99};
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fputs("usage: link NAMESPACE DEVICE NAMESPACE DEVICE\n", stderr);
    return 2;
  }
  const int first = DeviceIn(argv[1], argv[2]);
  const int second = DeviceIn(argv[3], argv[4]);
  std::puts("ready");
  std::fflush(stdout);
  Link(first, second).Run();
  return 0;
}
