// The thread that watches nf_tables: native/binding/watcher.
#include "binding/watcher.h"

#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>

#include "check.h"

namespace {

/** What the next receive fails with; 0 = the kernel answers. */
std::atomic<int> receive_fails_with = 0;

}  // namespace

extern "C" {

ssize_t __real_recv(int fd, void* buffer, size_t length, int flags);
int __real_poll(pollfd* waits, nfds_t count, int timeout_ms);

ssize_t __wrap_recv(int fd, void* buffer, size_t length, int flags) {
  const int error = receive_fails_with;
  if (error == 0) return __real_recv(fd, buffer, length, flags);
  errno = error;
  return -1;
}

int __wrap_poll(pollfd* waits, nfds_t count, int timeout_ms) {
  return __real_poll(waits, count, receive_fails_with == 0 ? timeout_ms : 0);
}

}  // extern "C"

namespace fairlead::test {

namespace {

/** What a watcher says, in order. */
class Said {
 public:
  explicit Said(std::string network_namespace = "")
      : watcher_(
            std::move(network_namespace), nft::ChangeReader({{2, "t"}}),
            [this](const nft::Committer&) { Add("changed", false); },
            [this](const std::optional<SystemError>& error) {
              Add(error ? "ended " + std::to_string(error->error) + " " + error->call : "closed",
                  true);
            }) {}

  void Start() { CHECK(watcher_.Start().has_value()); }
  void Close() { watcher_.Close(); }
  std::string UntilChanged() {
    return Until([this] { return !text_.empty(); });
  }
  std::string UntilOver() {
    return Until([this] { return over_; });
  }

 private:
  void Add(const std::string& words, bool over) {
    const std::lock_guard lock(mutex_);
    text_ += words + "; ";
    over_ = over;
    wake_.notify_one();
  }
  template <typename Condition>
  std::string Until(const Condition& condition) {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, condition);
    return text_;
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::string text_;
  bool over_ = false;
  // Last: its destructor waits for the thread, which uses the others.
  binding::Watcher watcher_;
};

}  // namespace

TEST("a watch that is closed ends without an error") {
  Said said;
  said.Start();
  CHECK_EQUAL(said.UntilChanged(), "changed; ");
  said.Close();
  CHECK_EQUAL(said.UntilOver(), "changed; closed; ");
}

TEST("a watch says why it cannot begin") {
  Said said("/nowhere/netns");
  said.Start();
  CHECK_EQUAL(said.UntilOver(), "ended " + std::to_string(ENOENT) + " open /nowhere/netns; ");
}

TEST("a watch whose socket fails says so") {
  receive_fails_with = ENOMEM;
  Said said;
  said.Start();
  CHECK_EQUAL(said.UntilOver(),
              "changed; ended " + std::to_string(ENOMEM) + " receive by netlink; ");
  receive_fails_with = 0;
}

}  // namespace fairlead::test
