// A thread that waits for changes of nf_tables by others.
#ifndef FAIRLEAD_BINDING_WATCHER_H_
#define FAIRLEAD_BINDING_WATCHER_H_

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <expected>
#include <functional>
#include <string>
#include <vector>

#include "base/file_descriptor.h"
#include "base/system_error.h"
#include "nft/change_reader.h"
#include "wire/socket.h"

namespace fairlead::binding {

/**
 * Owns the thread. No Node-API here: the thread calls `changed`, and `ended` as the last thing it
 * does. Changes that follow each other fast are told as one: after each call it sleeps, and what
 * the kernel could not keep for it meanwhile counts as a change. Where the kernel has no
 * nf_tables, or gives no socket, nothing is ever told.
 */
class Watcher {
 public:
  using Changed = std::function<void(const nft::Committer& by)>;
  using Ended = std::function<void()>;

  /** `network_namespace`: a path such as /run/netns/a; empty = that of the process. */
  Watcher(std::string network_namespace, std::vector<nft::WatchedTable> tables, Changed changed,
          Ended ended);
  /** As Abandon. */
  ~Watcher();
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  /** Starts the thread. */
  std::expected<void, SystemError> Start();
  /** From now on changes from this netlink port are not told; 0 = all are. */
  void Ignore(std::uint32_t port) noexcept { own_port_ = port; }
  /** The thread ends. Does not wait. */
  void Close() noexcept;
  /** The same, and waits for it. */
  void Abandon() noexcept;

 private:
  void Run();
  void Follow(wire::Socket& socket);
  /** Waits for the socket, when there is one, and for Close; false = it was Close. */
  bool Wait(const wire::Socket* socket, int timeout_ms) const noexcept;

  const std::string namespace_;
  nft::ChangeReader reader_;
  const Changed changed_;
  const Ended ended_;
  std::atomic<std::uint32_t> own_port_ = 0;
  FileDescriptor closing_;
  pthread_t thread_{};
  bool started_ = false;
};

}  // namespace fairlead::binding

#endif  // FAIRLEAD_BINDING_WATCHER_H_
