// A thread that waits for changes of nf_tables by other programs, or of links.
#ifndef FAIRLEAD_BINDING_WATCHER_H_
#define FAIRLEAD_BINDING_WATCHER_H_

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <expected>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/file_descriptor.h"
#include "base/system_error.h"
#include "nft/change_reader.h"
#include "route/link_change_reader.h"
#include "wire/socket.h"

namespace fairlead::binding {

/**
 * Owns the thread. The thread uses no Node-API. It calls `changed` once when the watch has started,
 * then for changes, and `ended` last, with the error that ended it; without one it was closed. It
 * sleeps after each call, so that a burst of changes is reported as one. Messages that the kernel
 * had to drop in the meantime count as a change.
 */
class Watcher {
 public:
  /** What is watched: tables, or all links. */
  using Reader = std::variant<nft::ChangeReader, route::LinkChangeReader>;
  using Changed = std::function<void(const nft::Committer& by)>;
  using Ended = std::function<void(const std::optional<SystemError>& error)>;

  /** `network_namespace`: a path such as /run/netns/a; empty = the process's. */
  Watcher(std::string network_namespace, Reader reader, Changed changed, Ended ended);
  /** Calls Abandon. */
  ~Watcher();
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  std::expected<void, SystemError> Start();
  /** Reports no changes from this netlink port from now on, but all of others; 0 = all. */
  void Ignore(std::uint32_t port) noexcept;
  /** Makes the thread end. Does not wait for it. */
  void Close() noexcept;
  /** Makes the thread end, and waits for it. */
  void Abandon() noexcept;

 private:
  /** Until Close, or until a system call fails. */
  std::expected<void, SystemError> Run();
  std::expected<void, SystemError> Follow(wire::Socket& socket);
  void Report() const;
  /** Wakes the thread. */
  void Wake() noexcept;
  /** Waits until the socket, if any, has a message, or for Wake. False after Close. */
  std::expected<bool, SystemError> Wait(const wire::Socket* socket, int timeout_ms) const noexcept;

  const std::string namespace_;
  Reader reader_;
  const Changed changed_;
  const Ended ended_;
  std::atomic<std::uint32_t> own_port_ = 0;
  std::atomic<bool> closed_ = false;
  /** An eventfd. */
  FileDescriptor wake_;
  pthread_t thread_{};
  bool started_ = false;
};

}  // namespace fairlead::binding

#endif  // FAIRLEAD_BINDING_WATCHER_H_
