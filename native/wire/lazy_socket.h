// The socket of a family, which is opened when somebody first needs it.
#ifndef FAIRLEAD_WIRE_LAZY_SOCKET_H_
#define FAIRLEAD_WIRE_LAZY_SOCKET_H_

#include <expected>
#include <optional>
#include <utility>

#include "wire/socket.h"

namespace fairlead::wire {

class LazySocket {
 public:
  explicit LazySocket(const SocketOptions& options) noexcept : options_(options) {}

  /** The socket, which is opened if it is not. Valid until `Close`. */
  std::expected<Socket*, SystemError> Open() {
    if (!socket_) {
      auto opened = Socket::Open(options_);
      if (!opened) return std::unexpected(opened.error());
      socket_.emplace(std::move(*opened));
    }
    return &*socket_;
  }

  /**
   * The next `Open` starts afresh. Call it after an answer that was not read to its end: what is
   * left of it would be taken for the answer to the next request.
   */
  void Close() noexcept { socket_.reset(); }

 private:
  SocketOptions options_;
  std::optional<Socket> socket_;
};

}  // namespace fairlead::wire

#endif  // FAIRLEAD_WIRE_LAZY_SOCKET_H_
