// The common part of netlink families.
#ifndef FAIRLEAD_PROTOCOL_NETLINK_FAMILY_H_
#define FAIRLEAD_PROTOCOL_NETLINK_FAMILY_H_

#include <cstdint>
#include <expected>
#include <optional>
#include <span>
#include <utility>

#include "protocol/family.h"
#include "protocol/one_of.h"
#include "wire/socket.h"

namespace fairlead::protocol {

/**
 * A family with its own socket, which is opened at the first buffer, and again after a failure. A
 * buffer holds ops (types of the variant Op) or one request (a type of the variant Request).
 */
template <typename Op, typename Request>
class NetlinkFamily : public Family {
 public:
  bool Handles(std::uint32_t code) const noexcept final {
    return IsOneOf<Op>(code) || IsOneOf<Request>(code);
  }

  std::expected<ByteBuffer, SystemError> Run(std::span<const std::uint8_t> buffer,
                                             std::uint32_t first_op) final {
    if (!socket_) {
      auto opened = wire::Socket::Open(options_);
      if (!opened) return std::unexpected(opened.error());
      socket_.emplace(std::move(*opened));
    }
    const auto first = RecordReader(buffer).Next();
    const bool asks = first && IsOneOf<Request>(first->code);
    auto answer = asks ? RunRequest(*socket_, buffer) : RunOps(*socket_, buffer, first_op);
    if (!answer || socket_->out_of_step()) socket_.reset();
    return answer;
  }

 protected:
  explicit NetlinkFamily(const wire::SocketOptions& options) noexcept : options_(options) {}

  virtual std::expected<ByteBuffer, SystemError> RunRequest(
      wire::Socket& socket, std::span<const std::uint8_t> buffer) = 0;
  /** A family without ops refuses all that is not a request of its own. */
  virtual std::expected<ByteBuffer, SystemError> RunOps(wire::Socket& socket,
                                                        std::span<const std::uint8_t> ops,
                                                        std::uint32_t) {
    return RunRequest(socket, ops);
  }

 private:
  wire::SocketOptions options_;
  std::optional<wire::Socket> socket_;
};

}  // namespace fairlead::protocol

#endif  // FAIRLEAD_PROTOCOL_NETLINK_FAMILY_H_
